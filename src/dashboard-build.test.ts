// The build itself; what comes of it is tried in src/http/dashboard.test.ts.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../test/world/ending.ts'
import { withUs } from '../test/world/with-us.ts'
import { freshDatabase, urlOf } from '../test/world/postgres.ts'
import { freePorts } from './base/free-ports.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = temporaryFolder()
/** A checkout in which nothing is built yet. */
const checkout = join(folder, 'checkout')
for (const each of ['src', 'dashboard', 'package.json', 'package-lock.json', 'tsconfig.json'])
  cpSync(join(root, each), join(checkout, each), {
    recursive: true,
    filter: (path) => !['node_modules', 'dist'].includes(basename(path)),
  })
symlinkSync(join(root, 'node_modules'), join(checkout, 'node_modules'))
const program = join(checkout, 'src/dashboard-build.ts')

/** What a build says that may take so long. */
async function build(lateMs: number): Promise<string> {
  const script = `
    const { builtDashboard } = await import(${JSON.stringify(program)})
    console.log(await builtDashboard(${JSON.stringify(join(folder, 'data'))}, () => {}, undefined, ${lateMs}).catch((error) => error.message))`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
  return stdout.trim()
}

test('a build that does not end holds up the mail for its time, is ended, and leaves nothing', async () => {
  expect(await build(1)).toBe('it had not ended after 0.001 s: is there enough memory?')
  expect(readdirSync(join(checkout, 'dashboard/dist'))).toEqual([])
})

test.runIf(process.platform === 'linux')(
  'a build takes no more than a machine with 1 GB has beside a service that runs, and none that ends beside it fails it',
  async () => {
    // What another build takes away at the moment in which old ones go looks so: a name, and nothing behind it.
    mkdirSync(join(checkout, 'dashboard/dist'), { recursive: true })
    symlinkSync('nowhere', join(checkout, 'dashboard/dist/.gone'))
    const child = spawn(process.execPath, [program], { stdio: 'ignore' })
    const ended = once(child, 'exit').then(([status]) => status as number | null)
    let most = 0
    while (child.exitCode === null) {
      for (const pid of childrenOf(child.pid ?? 0)) most = Math.max(most, peakMebibytes(pid))
      await Promise.race([setTimeout(20), ended])
    }
    expect(await ended).toBe(0)
    expect(readdirSync(join(checkout, 'dashboard/dist'))).toHaveLength(1)
    expect(most).toBeGreaterThan(100)
    expect(most).toBeLessThan(360) // 280 where it was made, and 450 with the allocator's huge pages
  },
  180_000,
)

test.runIf(process.platform === 'linux')(
  'delivery does not wait for a build, and a stop leaves no builder behind',
  async () => {
    writeFileSync(
      join(checkout, 'dashboard/vite.config.ts'),
      'await new Promise((never) => setInterval(never, 1 << 30, never))',
    )
    const database = await freshDatabase()
    const client = new Client(database.connection)
    await client.connect()
    const ports = await freePorts(2)
    const service = spawn(...withUs(process.execPath, [join(checkout, 'src/main.ts'), 'serve']), {
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: urlOf(database.connection),
        POSTHORN_SECRET_KEY: 'k'.repeat(32),
        POSTHORN_DATA_DIR: join(folder, 'serving'),
        POSTHORN_ROLES: 'api,deliver',
        POSTHORN_HTTP_PORT: String(ports[0]),
        POSTHORN_METRICS_PORT: String(ports[1]),
      },
      stdio: 'ignore',
    })
    const ended = once(service, 'exit')
    try {
      const nodes = () =>
        client.query('select from delivering_nodes').then(
          ({ rowCount }) => rowCount,
          () => 0,
        )
      await expect.poll(nodes).toBe(1)
      const builder = childrenOf(service.pid ?? 0).filter((pid) => commandOf(pid).includes('vite.js'))
      expect(builder).toHaveLength(1)
      // Where the machine's memory runs out meanwhile, it goes before the service.
      expect(readFileSync(`/proc/${builder[0]}/oom_score_adj`, 'utf8')).toBe('1000\n')
      service.kill()
      expect(await ended).toEqual([0, null])
      expect(commandOf(builder[0] ?? 0)).toBe('')
    } finally {
      service.kill('SIGKILL')
      await client.end()
      await database.drop()
    }
  },
)

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return [] // it has ended
  }
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

function peakMebibytes(pid: number): number {
  try {
    return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  } catch {
    return 0
  }
}
