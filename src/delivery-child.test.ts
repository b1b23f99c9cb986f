// A delivery process that hangs for good is ended, and told as dead: then both end, and the supervisor starts them again.
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, expect, test, vi } from 'vitest'
import { ending, temporaryFolder } from '../test/world/ending.ts'
import { freshDatabase } from '../test/world/postgres.ts'
import { startDeliveryChild } from './delivery-child.ts'
import { migrate } from './store/migrate.ts'

const database = await ending(freshDatabase)
await migrate(database.connection)
const folder = temporaryFolder()
vi.stubEnv('POSTHORN_DATA_DIR', folder)
vi.stubEnv('POSTHORN_LOG_LEVEL', 'silent')
afterAll(() => vi.unstubAllEnvs())

test('one that answers again is left alone, one that never does is ended, and the reason says so', async () => {
  const died = vi.fn<(error: Error) => void>()
  const child = await startDeliveryChild(database.connection, died, new AbortController().signal, {
    everyMs: 20,
    missesMax: 3,
  })
  const pid = deliveryProcess()
  process.kill(pid, 'SIGSTOP')
  expect(await child.deliveryState()).toEqual({ answers: false })
  process.kill(pid, 'SIGCONT')
  expect(await child.deliveryState()).toEqual({ answers: true })
  expect(died).not.toHaveBeenCalled()
  process.kill(pid, 'SIGSTOP')
  await vi.waitFor(() => expect(died).toHaveBeenCalledOnce(), 60_000)
  expect(died.mock.calls[0]?.[0].message).toMatch(/^the delivery process ended \(SIGKILL\): it was asked 3 times and/)
})

function deliveryProcess(): number {
  const tasks = readdirSync('/proc/self/task').map((task) => readFileSync(`/proc/self/task/${task}/children`, 'utf8'))
  const pids = tasks.join(' ').split(/\s+/).filter(Boolean)
  return Number(pids.find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('delivery-process')))
}
