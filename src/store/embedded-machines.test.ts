// Containers have as much of /dev/shm as somebody gave them, a bare chroot has none: the embedded PostgreSQL is made and runs all the same.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'

const folder = fs.mkdtempSync(join(tmpdir(), 'posthorn-shm-'))
fs.chmodSync(folder, 0o711)
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

/** Starts the database in a mount namespace whose /dev is changed by a line of shell, and stops it; what it said of its start. */
async function startedWhere(line: string, dataDir: string): Promise<string> {
  const program = fileURLToPath(new URL('embedded.test-child.ts', import.meta.url))
  const child = spawn(
    'unshare',
    ['--mount', 'sh', '-ec', `${line}; exec "$@"`, 'sh', process.execPath, program, dataDir, 'serve'],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  const said = String((await once(createInterface(child.stdout), 'line'))[0])
  child.stdin.end()
  await once(child, 'exit')
  return said
}

const small = 'mount -t tmpfs -o size=64k shm /dev/shm'
const none = `
d=${join(folder, 'dev')}; mkdir -p "$d"; mount -t tmpfs dev "$d"
for each in null zero random urandom; do touch "$d/$each"; mount --bind "/dev/$each" "$d/$each"; done
mount --rbind "$d" /dev`

// Namespaces are root's to make.
test.runIf(process.platform === 'linux' && process.getuid?.() === 0)(
  'with 64 KB of shared memory a database is made and starts, and the same one where there is none, or plenty',
  { timeout: 120_000 },
  async () => {
    const dataDir = join(folder, 'data')
    for (const line of [small, ':', none]) expect(await startedWhere(line, dataDir)).toContain('"connection"')
  },
)
