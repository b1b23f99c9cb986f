// Once for a whole test run: builds the dashboard where it is not built yet, so that no start under test is the one that does, and offers one
// fresh PostgreSQL to every worker. It starts when the first test asks for it, so a run without the database does not pay for one. fsync and synchronous_commit stay on: durability is what we test.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { silentLog } from '../src/base/log.ts'
import { builtDashboard } from '../src/dashboard-build.ts'
import { embeddedPostgres } from '../src/embedded/embedded.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** A unix socket that answers every connection with the cluster's connection, as JSON. */
    readonly postgresBroker: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await builtDashboard(tmpdir(), () => undefined)
  const folder = mkdtempSync(join(tmpdir(), 'posthorn-test-'))
  chmodSync(folder, 0o711) // as root, PostgreSQL runs as another user and must reach its cluster
  process.env['TEST_RUN_FOLDER'] = folder // for what a worker that is ended without a word would leave behind
  // Each file has a worker of its own, which reads the same libraries: they are compiled once for all of them, and not for each. It goes with the run: who
  // kept it would keep what was compiled of checkouts that tests make, too.
  process.env['NODE_COMPILE_CACHE'] ??= join(folder, 'compiled')
  const postgres = embeddedPostgres({
    dataDir: join(folder, 'data'),
    log: silentLog,
    purpose: 'serve',
    memoryBytes: 512 * 1024 * 1024,
  })
  let cluster: ReturnType<typeof postgres.start> | undefined
  const started = (): ReturnType<typeof postgres.start> =>
    (cluster ??= postgres.start().finally(() => spread(join(folder, 'data', 'postgresql', 'base'))))
  const broker = createServer((socket) => {
    socket.on('error', () => undefined) // a worker that went away has no question any more
    started().then(
      ({ connection }) => socket.end(JSON.stringify({ connection })),
      (error: Error) => socket.end(JSON.stringify({ trouble: error.message })),
    )
  })
  const path = join(folder, 'broker')
  await new Promise<void>((resolve, reject) => broker.once('error', reject).listen(path, resolve))
  project.provide('postgresBroker', path)
  return async () => {
    broker.close()
    await postgres.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Has ext4 lay what is made in this folder into different groups of inodes. Without a journal it takes none that was freed within the last minutes, and looks at
 * each of them again for every file: where databases come and go in one group, a clone costs up to half a second of processor time, and 0.03 s elsewhere. Other
 * file systems do not know the flag, and need it not.
 */
function spread(folder: string): void {
  spawnSync('chattr', ['+T', folder], { stdio: 'ignore' })
}
