// The log is written by a process of its own, so that what is read is what an operator's collector reads: its standard error.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'

const log = fileURLToPath(new URL('./log.ts', import.meta.url))

/** As it stood on standard error the last time. */
let raw = ''

/** The lines that this program leaves on standard error. */
async function linesOf(program: string, level = 'info'): Promise<Record<string, unknown>[]> {
  const text = `import { makeLog } from ${JSON.stringify(log)}; const log = makeLog(${JSON.stringify(level)}); ${program}`
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', text]).catch(
    (error: { stdout: string; stderr: string }) => error,
  )
  expect(stdout).toBe('')
  raw = stderr
  return stderr
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

describe('the log', () => {
  test('is one JSON line per event, with its time and facts, also where the process ends at once', async () => {
    const lines = await linesOf(
      `log.refused({ code: 'not_found' }); log.attempted({ outcome: 'sent' }); process.exit(3)`,
    )
    expect(lines).toMatchObject([
      { event: 'refused', code: 'not_found' },
      { event: 'attempted', outcome: 'sent' },
    ])
    for (const line of lines) expect(new Date(String(line['time'])).getTime()).toBeGreaterThan(Date.now() - 60_000)
  })

  test('a fault whose causes say much is a line that a pipe takes as a whole, and its first words stand in it', async () => {
    const chain = `let error; for (let n = 0; n < 8; n++) error = new Error(n + ' of €\\u0085'.repeat(2_000), { cause: error })`
    const [fault, small] = await linesOf(
      `${chain}; log.fault('much', error); log.fault('little', new Error('x', { cause: new Error('y') }))`,
    )
    expect(Math.max(...raw.split('\n').map((line) => Buffer.byteLength(line)))).toBeLessThan(4_096)
    expect(fault).toMatchObject({
      what: 'much',
      error: {
        message: expect.stringMatching(/^7 of €/) as string,
        cause: { message: expect.stringMatching(/^6 of €/) as string },
      },
    })
    expect(small).toMatchObject({
      error: {
        message: 'x',
        stack: expect.stringMatching(/x\n/) as string,
        cause: { stack: expect.stringMatching(/y\n/) as string },
      },
    })
  })

  test('holds nothing that a terminal obeys, whoever wrote it, and says the same to its collector', async () => {
    const words = '\u009b2J\u009d0;title\u0007 \u007f \u202e \u2066 \u0085 grün €'
    const text = JSON.stringify(words).replace(
      /[^ -~]/g,
      (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
    const seen = await linesOf(`
      log.refused({ field: ${text} })
      log.fault('attempt', new Error(${text}))`)
    expect(seen).toMatchObject([{ field: words }, { error: { message: words } }])
    expect(raw).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/)
    expect(raw).toContain('grün €')
  })

  test('tells a fault at once, with its causes, before a kill that lets nothing be flushed', async () => {
    const [line] = await linesOf(`
      const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
      log.fault('arm', new Error('no answer', { cause }), { messageId: 'm1' })
      process.kill(process.pid, 'SIGKILL')`)
    expect(line).toMatchObject({
      event: 'fault',
      what: 'arm',
      messageId: 'm1',
      error: { message: 'no answer', stack: expect.any(String), cause: { message: 'refused', code: 'ECONNREFUSED' } },
    })
  })

  test('writes what comes again and again a few times a minute, and then tells how many it has not written', async () => {
    const lines = await linesOf(`
      let now = 1e6
      performance.now = () => now
      const away = (n) => log.fault('claim', new Error('connect ECONNREFUSED'), { n })
      for (let n = 0; n < 1_000; n++) away(n)
      log.fault('claim', new Error('another one')); log.fault('arm', new Error('connect ECONNREFUSED'))
      now += 60_000
      away(1_000); away(1_001)
      now += 60_000
      away(1_002)`)
    expect(lines.map(({ what, n, unwritten }) => [what, n, unwritten])).toEqual([
      ['claim', 0, undefined],
      ['claim', 1, undefined],
      ['claim', 2, undefined],
      ['claim', undefined, undefined],
      ['arm', undefined, undefined],
      ['claim', 1_000, 997],
      ['claim', 1_001, undefined],
      ['claim', 1_002, undefined],
    ])
  })

  test('survives errors that are none, and causes that go in a ring', async () => {
    const lines = await linesOf(`
      const one = new Error('one'); const two = new Error('two', { cause: one }); one.cause = two
      log.fault('ring', one); log.fault('text', 'just words'); log.fault('nothing', undefined)`)
    expect(lines.map(({ what }) => what)).toEqual(['ring', 'text', 'nothing'])
    expect(lines[1]).toMatchObject({ error: { message: 'just words' } })
  })

  test.each([
    ['its disk is full', 'exec 2>/dev/full'],
    ['whoever read it has gone', 'exec 2> >(exec true); wait $!'],
    ['nothing is there to take it', 'exec 2>&-'],
  ])('where %s, the process goes on, and ends', async (_, redirection) => {
    const program = `import { makeLog } from ${JSON.stringify(log)}; const log = makeLog('info')
      for (let n = 0; n < 500; n++) { log.refused({ code: 'x'.repeat(50) }); log.fault('a', new Error('b' + n)) }
      process.stdout.write('done'); log.fault('a', new Error('b'))`
    const script = `${redirection}; exec "$0" --input-type=module --eval "$1"`
    const run = promisify(execFile)('bash', ['--norc', '-c', script, process.execPath, program], { timeout: 10_000 })
    await expect(run).resolves.toMatchObject({ stdout: 'done' })
  })

  test('what a slow reader has not taken yet reaches it', async () => {
    const program = `import { makeLog } from ${JSON.stringify(log)}; const log = makeLog('info')
      process.stderr.write('') // from here on a pipe does not block
      for (let n = 0; n < 3_000; n++) log.refused({ n, code: 'x'.repeat(50) })`
    const script = `"$0" --input-type=module --eval "$1" 2> >(sleep 0.3; exec cat >&1)`
    const { stdout } = await promisify(execFile)('bash', ['--norc', '-c', script, process.execPath, program])
    expect(stdout.trimEnd().split('\n')).toHaveLength(3_000)
  })

  test.each([
    ['debug', ['accepted', 'refused', 'warned', 'fault']],
    ['info', ['refused', 'warned', 'fault']],
    ['warn', ['warned', 'fault']],
    ['error', ['fault']],
    ['silent', []],
  ])('at level %s', async (level, events) => {
    const lines = await linesOf(
      `log.accepted({}); log.refused({}); log.warned('w', 'words'); log.fault('x', new Error('y'))`,
      level,
    )
    expect(lines.map(({ event }) => event)).toEqual(events)
  })

  test('never holds what the database tells of a row, only its complaint', async () => {
    const [line] = await linesOf(`
      log.fault('finish', Object.assign(new Error('duplicate key'), { code: '23505', detail: 'Key (recipient)=(canary@x) exists', where: 'canary' }))`)
    expect(JSON.stringify(line)).not.toContain('canary')
    expect(line).toMatchObject({ error: { code: '23505' } })
  })
})
