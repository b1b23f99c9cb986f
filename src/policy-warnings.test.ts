import { expect, test } from 'vitest'
import { silentLog, type Facts } from './base/log.ts'
import { limits } from './config.ts'
import { warningOfPolicy } from './policy-warnings.ts'

/** The log, what it was warned of, what else it heard, and a clock. */
function watched() {
  const warned: Facts[] = []
  const heard: Facts[] = []
  let at = 0
  const hear = (facts: Facts) => void heard.push(facts)
  const log = warningOfPolicy(
    { ...silentLog, attempted: hear, reported: hear, warned: (what, _, facts) => void warned.push({ what, ...facts }) },
    () => at,
  )
  return { log, warned, heard, pass: (ms: number) => void (at += ms) }
}
const refused = { outcome: 'failed', bounce: 'policy', provider: 'google', messageId: 'm1', code: 550 }

test('a provider that refuses by policy is one warning in an hour, and the next one says how many were not written', () => {
  const { log, warned, pass } = watched()
  for (let n = 0; n < 1_000; n++) log.attempted(refused)
  log.attempted({ ...refused, provider: 'example.org' })
  expect(warned).toMatchObject([
    { what: 'policy', provider: 'google', messageId: 'm1', code: 550 },
    { provider: 'example.org' },
  ])
  pass(limits.policyWarnedAgainMs)
  log.attempted({ ...refused, messageId: 'm2' })
  log.attempted(refused)
  expect(warned.slice(2)).toMatchObject([{ provider: 'google', messageId: 'm2', unwritten: 999 }])
})

test('a report that comes later is warned of too, by the recipient’s domain, and once', () => {
  const { log, warned } = watched()
  const report = { outcome: 'recorded', bounce: 'policy', domain: 'example.org', messageId: 'm1' }
  log.reported({ ...report, outcome: 'repeated' })
  expect(warned).toEqual([])
  log.reported(report)
  log.reported(report)
  expect(warned).toMatchObject([{ what: 'policy', provider: 'example.org', messageId: 'm1' }])
})

test('no other refusal is warned of, and none of the simulator’s', () => {
  const { log, warned, heard } = watched()
  const attempts = [
    { outcome: 'accepted', provider: 'google' },
    { ...refused, bounce: 'bad_mailbox' },
    { ...refused, provider: 'sandbox' },
  ]
  for (const each of attempts) log.attempted(each)
  const report = { outcome: 'recorded', bounce: 'capacity', domain: 'example.org' }
  log.reported(report)
  expect(warned).toEqual([])
  expect(heard).toEqual([...attempts, report]) // as it would without the warning
})

test('more providers than are remembered cost no more memory', () => {
  const { log, warned } = watched()
  for (let n = 0; n <= limits.providersKnownMax; n++) log.attempted({ ...refused, provider: `p${n}` })
  log.attempted({ ...refused, provider: 'p1' })
  expect(warned).toHaveLength(limits.providersKnownMax + 1)
  log.attempted({ ...refused, provider: 'p0' })
  expect(warned).toHaveLength(limits.providersKnownMax + 2)
})
