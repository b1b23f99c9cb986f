// What the unit file starts beside the service: `systemctl start` and `restart` return, and whatever is ordered behind the service begins, when it is ready.
import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { temporaryFolder } from '../world/ending.ts'
import { freePorts } from '../../src/base/free-ports.ts'
import { withUs } from '../world/with-us.ts'
import { freshDatabase, urlOf } from '../world/postgres.ts'

const root = join(import.meta.dirname, '../..')
const started: ChildProcess[] = []
let run: string

beforeEach(() => {
  run = temporaryFolder()
})
afterEach(async () => {
  for (const child of started.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill()
    await once(child, 'exit')
  }
})

function start(program: string, args: readonly string[], settings: Record<string, string | undefined>): ChildProcess {
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], RUNTIME_DIRECTORY: run, ...settings }
  const child = spawn(...withUs(program, args), { env, stdio: 'ignore' })
  started.push(child)
  return child
}

const waitFor = (process: ChildProcess, settings: Record<string, string | undefined> = {}): ChildProcess =>
  start(join(root, 'ops/wait-until-ready'), [], { MAINPID: String(process.pid), ...settings })

const statusOf = async (child: ChildProcess): Promise<number> => ((await once(child, 'exit')) as [number])[0]

test('whoever waits for a start waits until the service answers, and no longer', async () => {
  const fresh = await freshDatabase()
  const [http = 0, metrics = 0] = await freePorts(2)
  const service = start(join(root, 'bin/posthorn'), ['serve', '--roles', 'api'], {
    DATABASE_URL: urlOf(fresh.connection),
    POSTHORN_SECRET_KEY: randomBytes(32).toString('base64'),
    POSTHORN_DATA_DIR: join(run, 'data'),
    POSTHORN_HTTP_PORT: String(http),
    POSTHORN_METRICS_PORT: String(metrics),
  })
  expect(await statusOf(waitFor(service))).toBe(0)
  expect((await fetch(`http://127.0.0.1:${http}/readyz`)).status).toBe(200)
  service.kill()
  expect(await statusOf(service)).toBe(0)
  await fresh.drop()
}, 60_000)

test('a start that ends without success is waited for until then, and the word of an earlier run is none', async () => {
  const service = start('sleep', ['60'], {})
  writeFileSync(join(run, 'ready'), `${process.pid}\n`)
  // Between two of its looks it sleeps: that tells when it has looked.
  const looks = join(run, 'looks')
  writeFileSync(join(run, 'sleep'), `#!/bin/sh\necho >>'${looks}'\nexec /bin/sleep "$1"\n`, { mode: 0o755 })
  const waiting = waitFor(service, { PATH: `${run}:${process.env['PATH']}` })
  await vi.waitFor(() => expect(readFileSync(looks, 'utf8').length).toBeGreaterThan(1), { timeout: 10_000 })
  expect(waiting.exitCode).toBeNull()
  service.kill()
  expect(await statusOf(waiting)).toBe(1)
})

test('where systemd makes no folder for it, as before 240, nothing is waited for', async () => {
  expect(await statusOf(waitFor(start('sleep', ['60'], {}), { RUNTIME_DIRECTORY: undefined }))).toBe(0)
})
