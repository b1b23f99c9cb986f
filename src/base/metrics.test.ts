import { expect, test, vi } from 'vitest'
import { silentLog, type Log } from './log.ts'
import { makeMetrics } from './metrics.ts'

const sample = (text: string, name: string): string[] => text.split('\n').filter((line) => line.startsWith(`${name}{`))

test('what passes through the log is counted by its label, and passed on', async () => {
  const passed: string[] = []
  const inner: Log = {
    ...silentLog,
    accepted: (facts) => void passed.push(`accepted ${String(facts['source'])}`),
    refused: (facts) => void passed.push(`refused ${String(facts['code'])}`),
    attempted: (facts) => void passed.push(`attempted ${String(facts['outcome'])}`),
    reported: () => void passed.push('reported'),
    fault: (what) => void passed.push(`fault ${what}`),
  }
  const metrics = makeMetrics('deliver')
  const log = metrics.counting(inner)
  log.accepted({ source: 'smtp' })
  log.accepted({})
  log.accepted({ replayed: true })
  log.refused({ code: 'not_found' })
  log.attempted({ outcome: 'retry' })
  log.attempted({ outcome: 'retry', trouble: 'timeout' })
  // Nobody was asked: no part of how mail fares.
  log.attempted({ outcome: 'retry', trouble: 'paced' })
  log.attempted({ outcome: 'retry', trouble: 'gave_way' })
  log.reported({})
  log.fault('arm', new Error('x'))
  expect(passed).toEqual([
    'accepted smtp',
    'accepted undefined',
    'accepted undefined',
    'refused not_found',
    'attempted retry',
    'attempted retry',
    'attempted retry',
    'attempted retry',
    'reported',
    'fault arm',
  ])
  const text = await metrics.text()
  expect(sample(text, 'posthorn_accepted_total')).toEqual([
    'posthorn_accepted_total{source="rest",process="deliver"} 1',
    'posthorn_accepted_total{source="smtp",process="deliver"} 1',
  ])
  expect(sample(text, 'posthorn_refused_total')).toEqual([
    'posthorn_refused_total{code="not_found",process="deliver"} 1',
  ])
  // Those that have not been are 0 from the start, so that the first of them is a step.
  expect(sample(text, 'posthorn_attempts_total')).toEqual([
    'posthorn_attempts_total{outcome="accepted",process="deliver"} 0',
    'posthorn_attempts_total{outcome="retry",process="deliver"} 2',
    'posthorn_attempts_total{outcome="failed",process="deliver"} 0',
    'posthorn_attempts_total{outcome="unknown",process="deliver"} 0',
    'posthorn_attempts_total{outcome="put_off",process="deliver"} 2',
  ])
  expect(sample(text, 'posthorn_faults_total')).toEqual(['posthorn_faults_total{what="arm",process="deliver"} 1'])
})

test('what has not happened yet is 0 from the start: an alert sees no step from nothing to a number', async () => {
  const metrics = makeMetrics('main', { posthorn_refused_total: [{ code: 'not_found' }, { code: 'conflict' }] })
  metrics.counting(silentLog).refused({ code: 'conflict' })
  const text = await metrics.text()
  expect(sample(text, 'posthorn_refused_total')).toEqual([
    'posthorn_refused_total{code="not_found",process="main"} 0',
    'posthorn_refused_total{code="conflict",process="main"} 1',
  ])
  expect(sample(text, 'posthorn_accepted_total')).toHaveLength(2)
  expect(sample(text, 'posthorn_webhook_attempts_total')).toHaveLength(4)
  expect(() => makeMetrics('main', { nothing_total: [{ code: 'not_found' }] })).toThrow('nothing_total')
})

test('a watched value is asked for at each scrape, and two registries do not know each other', async () => {
  const [one, other] = [makeMetrics('main'), makeMetrics('deliver')]
  let value = 3
  one.watch('posthorn_messages_in_flight', 'In flight.', () => value)
  expect(sample(await one.text(), 'posthorn_messages_in_flight')).toEqual([
    'posthorn_messages_in_flight{process="main"} 3',
  ])
  value = 7
  expect(sample(await one.text(), 'posthorn_messages_in_flight')).toEqual([
    'posthorn_messages_in_flight{process="main"} 7',
  ])
  expect(await other.text()).not.toContain('posthorn_messages_in_flight')
})

test('only counters are named like counters', async () => {
  const text = await makeMetrics('main').text()
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)]
  expect(types.length).toBeGreaterThan(20)
  expect(
    types.filter(([, name, type]) => name?.endsWith('_total') !== (type === 'counter')).map(([line]) => line),
  ).toEqual([])
})

test('an answered request is counted by route and status', async () => {
  const metrics = makeMetrics('main')
  metrics.http.answered('/api/v1/send', 202, 0.004)
  metrics.http.answered('/api/v1/send', 202, 0.2)
  const text = await metrics.text()
  expect(text).toContain('posthorn_http_request_seconds_count{process="main",route="/api/v1/send",status="202"} 2')
  expect(text).toContain(
    'posthorn_http_request_seconds_bucket{le="0.005",process="main",route="/api/v1/send",status="202"} 1',
  )
})

test('an attempt is timed by its outcome, a delivery from its acceptance, and a refusal counted by its class', async () => {
  const metrics = makeMetrics('deliver')
  const log = metrics.counting(silentLog)
  log.attempted({ outcome: 'accepted', ms: 200, ageMs: 3_000 })
  log.attempted({ outcome: 'failed', ms: 100, bounce: 'no_such_user', report: 'hard_bounce' })
  log.attempted({ outcome: 'failed', bounce: 'policy', report: 'soft_bounce', provider: 'sandbox' }) // of nobody
  log.reported({ outcome: 'recorded', type: 'soft_bounce', bounce: 'policy' })
  log.reported({ outcome: 'recorded', type: 'complaint' })
  log.notified({ outcome: 'delivered', ms: 40 })
  const text = await metrics.text()
  expect(sample(text, 'posthorn_bounces_total')).toEqual([
    'posthorn_bounces_total{class="no_such_user",type="hard_bounce",process="deliver"} 1',
  ])
  expect(sample(text, 'posthorn_reports_total')).toEqual([
    'posthorn_reports_total{type="soft_bounce",outcome="recorded",class="policy",process="deliver"} 1',
    'posthorn_reports_total{type="complaint",outcome="recorded",process="deliver"} 1',
  ])
  expect(sample(text, 'posthorn_delivery_seconds_sum')).toEqual(['posthorn_delivery_seconds_sum{process="deliver"} 3'])
  expect(sample(text, 'posthorn_attempt_seconds_count')).toHaveLength(2)
  expect(sample(text, 'posthorn_webhook_attempt_seconds_count')[0]).toMatch(/ 1$/)
})

test('what a question to the database tells is asked once for a while, and is missing while it fails', async () => {
  const metrics = makeMetrics('deliver')
  let asked = 0
  let away = false
  const read = () => {
    asked += 1
    if (away) return Promise.reject(new Error('away'))
    return Promise.resolve([
      { name: 'depth', label: 'queued', value: 3 },
      { name: 'late', value: 7 },
    ])
  }
  metrics.measure({ depth: { help: 'x', label: 'status' }, late: { help: 'y' } }, read, 60_000)
  await metrics.text()
  const text = await metrics.text()
  expect(asked).toBe(1)
  expect(sample(text, 'depth')).toEqual(['depth{status="queued",process="deliver"} 3'])
  expect(sample(text, 'late')).toEqual(['late{process="deliver"} 7'])

  // What the answer leaves out is not told as 0.
  const some = makeMetrics('main')
  const reading = () => Promise.resolve([{ name: 'late', value: Infinity }])
  some.measure({ late: { help: 'y' }, never: { help: 'z' } }, reading, 60_000)
  const told = await some.text()
  expect([...sample(told, 'late'), ...sample(told, 'never')]).toEqual(['late{process="main"} +Inf'])

  const others = makeMetrics('main')
  away = true
  others.measure({ depth: { help: 'x', label: 'status' }, late: { help: 'y' } }, read, 0)
  const none = await others.text()
  expect([...sample(none, 'depth'), ...sample(none, 'late')]).toEqual([])
})

test('what an answer names no more is gone at the next scrape, and so is all where none comes', async () => {
  const metrics = makeMetrics('main')
  const answers = [['left', 'right'], ['right'], undefined]
  const read = async () => {
    const slots = answers.shift()
    if (slots === undefined) throw new Error('away')
    return slots.map((label) => ({ name: 'kept', label, value: 1 }))
  }
  metrics.measure({ kept: { help: 'x', label: 'slot' } }, read, 0)
  for (const slots of [['left', 'right'], ['right'], []])
    expect(sample(await metrics.text(), 'kept')).toEqual(slots.map((slot) => `kept{slot="${slot}",process="main"} 1`))
})

test('a question that the database does not answer holds up no scrape: the other numbers are told, and it is asked once', async () => {
  const metrics = makeMetrics('deliver')
  let asked = 0
  const read = () => {
    asked += 1
    return new Promise<never>(() => undefined)
  }
  metrics.measure({ depth: { help: 'x' } }, read, 0)
  metrics.counting(silentLog).attempted({ outcome: 'unknown' })
  for (const text of [await metrics.text(), await metrics.text()]) {
    expect(sample(text, 'depth')).toEqual([])
    expect(text).toContain('posthorn_attempts_total{outcome="unknown",process="deliver"} 1')
  }
  expect(asked).toBe(1)
})

test('while an answer is late, the last one stands, but not for long', async () => {
  const metrics = makeMetrics('deliver')
  let answers = 0
  const read = () =>
    answers++ === 0 ? Promise.resolve([{ name: 'depth', value: 3 }]) : new Promise<never>(() => undefined)
  metrics.measure({ depth: { help: 'x' } }, read, 60_000)
  const clock = vi.spyOn(performance, 'now')
  const at = async (ms: number): Promise<string[]> => {
    clock.mockReturnValue(1_000_000 + ms)
    return sample(await metrics.text(), 'depth')
  }
  expect(await at(0)).toEqual(['depth{process="deliver"} 3'])
  expect(await at(61_000)).toEqual(['depth{process="deliver"} 3'])
  expect(await at(241_000)).toEqual([])
  expect(answers).toBe(2)
  clock.mockRestore()
})
