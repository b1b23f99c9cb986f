// The build itself; what comes of it is tried in src/http/dashboard.test.ts.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'posthorn-unbuilt-'))
/** A checkout in which nothing is built yet. */
const checkout = join(folder, 'checkout')
for (const each of ['src', 'dashboard', 'package.json', 'package-lock.json', 'tsconfig.json'])
  cpSync(join(root, each), join(checkout, each), {
    recursive: true,
    filter: (path) => !['node_modules', 'dist'].includes(basename(path)),
  })
symlinkSync(join(root, 'node_modules'), join(checkout, 'node_modules'))
const program = join(checkout, 'src/dashboard-build.ts')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

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
  'a build takes no more than a machine with 1 GB has beside a service that runs',
  async () => {
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

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return [] // it has ended
  }
}

function peakMebibytes(pid: number): number {
  try {
    return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  } catch {
    return 0
  }
}
