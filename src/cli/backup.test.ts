// `posthorn restore` as somebody runs it in a hurry: with the wrong file, or without the key.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { ending, temporaryFolder } from '../../test/world/ending.ts'
import { freshDatabase, type FreshDatabase } from '../../test/world/postgres.ts'
import type { Check } from '../doctor/doctor.ts'
import { makeAdmitter } from '../store/admit.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { around, bare, run } from './command.test-kit.ts'

const [oldKey, otherKey] = ['o'.repeat(32), 'x'.repeat(32)]

const folder = temporaryFolder()
const file = join(folder, 'posthorn.backup')
const [full, empty] = await Promise.all([ending(freshDatabase), ending(freshDatabase)])

const over = ({ connection }: Pick<FreshDatabase, 'connection'>, key: string) =>
  around(connection, { POSTHORN_DATA_DIR: folder, POSTHORN_SECRET_KEY: key })
const posthorn = (env: NodeJS.ProcessEnv, ...args: readonly string[]) => run(env, args)

await posthorn(over(full, oldKey), 'workspace', 'create', '--name', 'Shop')
expect(await posthorn(over(full, oldKey), 'backup', file)).toMatchObject({ status: 0 })

test('a backup that other tools have made is noted, and no file written; it is one or the other', async () => {
  expect(await posthorn(over(full, oldKey), 'backup', '--noted', '--json')).toMatchObject({
    status: 0,
    out: '{\n  "noted": true\n}\n',
  })
  for (const wrong of [[], [file, '--noted']])
    expect(await posthorn(over(full, oldKey), 'backup', ...wrong)).toMatchObject({
      status: 2,
      err: expect.stringContaining('either a file or --noted') as string,
    })
  expect(await posthorn(over(full, oldKey), 'backup', '-')).toMatchObject({
    status: 2,
    err: expect.stringContaining('a backup is a file') as string,
  })
  const { checks } = JSON.parse((await posthorn(over(full, oldKey), 'doctor', '--json')).out) as { checks: Check[] }
  expect(checks.find(({ name }) => name === 'backup')?.detail).toBe('The last backup is 0 hours old.')
})

test('a file that is no whole backup is refused before a database is made for it', async () => {
  const whole = readFileSync(file)
  const given = (name: string, bytes: Uint8Array): string => {
    const path = join(folder, name)
    writeFileSync(path, bytes)
    return path
  }
  const wrong: [string, RegExp][] = [
    [join(folder, 'nothing'), /^posthorn: There is no file \S+\/nothing\.\n$/],
    [folder, /cannot be read/],
    [given('cut', whole.subarray(0, -100)), /is cut off: .* its end is missing\./],
    [given('cut-early', whole.subarray(0, 12)), /is cut off/],
    [given('none', Buffer.from('hello')), /is no backup of Posthorn\.\n$/],
    [given('empty', Buffer.alloc(0)), /is no backup of Posthorn\.\n$/],
    [given('other', zstdCompressSync('{"hello":1}\n')), /is no backup of Posthorn\.\n$/],
  ]
  const dataDir = join(folder, 'new')
  const said = wrong.map(async ([path]) => posthorn({ ...bare, POSTHORN_DATA_DIR: dataDir }, 'restore', path))
  for (const [at, { status, err }] of (await Promise.all(said)).entries())
    expect({ status, err }).toEqual({ status: 1, err: expect.stringMatching(wrong[at]?.[1] as RegExp) as string })
  expect(existsSync(dataDir)).toBe(false)
})

test('a backup of another release is refused before a database is made for it: the one that it is sent to could not use that', async () => {
  const older = join(folder, 'older')
  const text = zstdDecompressSync(readFileSync(file)).toString()
  writeFileSync(older, zstdCompressSync(text.replace(/,"\d{4}-[^"]*"\]/, ']')))
  const dataDir = join(folder, 'newer')
  const { status, err } = await posthorn({ ...bare, POSTHORN_DATA_DIR: dataDir }, 'restore', older)
  expect(err).toMatch(
    /^posthorn: The backup has the schema \d{4}-\S+, and this release \d{4}-\S+: restore it with the release/,
  )
  expect({ status, made: existsSync(dataDir) }).toEqual({ status: 1, made: false })
})

test('a backup of another key: the rows are back, and restore, doctor and every command say that the key is missing', async () => {
  const wrong = over(empty, otherKey)
  const restored = await posthorn(wrong, 'restore', file)
  expect(restored).toMatchObject({ status: 1, out: expect.stringMatching(/The database is as of/) as string })
  expect(restored.err).toMatch(
    /^posthorn: The rows are back, but POSTHORN_SECRET_KEY does not open this database: it is not the installation key/,
  )

  expect((await posthorn(wrong, 'workspace', 'list')).err).toMatch(
    /^posthorn: POSTHORN_SECRET_KEY does not open this database/,
  )
  const { checks } = JSON.parse((await posthorn(wrong, 'doctor', '--json')).out) as { checks: Check[] }
  const found = Object.fromEntries(checks.map((check) => [check.name, check]))
  expect(found['installation_key']).toMatchObject({
    status: 'fail',
    detail: expect.stringMatching(
      /^POSTHORN_SECRET_KEY does not open this database: it is not the installation key.*old one/,
    ) as string,
  })
  expect(found['database']).toMatchObject({
    status: 'skipped',
    detail: expect.stringMatching(/see installation_key/) as string,
  })
  expect(found['queue']?.detail).toMatch(/see installation_key/)

  expect(await posthorn(over(empty, oldKey), 'workspace', 'list')).toMatchObject({
    status: 0,
    out: expect.stringMatching(/Shop/) as string,
  })
})

test('a backup taken by a clock that was ahead: what the restore says to run next is taken', async () => {
  const [world, there] = [await ending(storeWorld), await ending(freshDatabase)]
  await makeAdmitter(world.db).admit(world.submission(await world.sender()))
  await world.setClock(new Date(Date.now() + 3_600_000).toISOString())
  const ahead = join(folder, 'ahead.backup')
  expect(await posthorn(over(world, oldKey), 'backup', ahead)).toMatchObject({ status: 0 })
  const { status, out } = await posthorn(over(there, oldKey), 'restore', ahead)
  const [, next = ''] = /bin\/posthorn (recover --assume-sent-since \S+)/.exec(out) ?? []
  expect({ status, next }).toEqual({
    status: 0,
    next: expect.stringMatching(/^recover --assume-sent-since 2/) as string,
  })
  expect(await posthorn(over(there, oldKey), ...next.split(' '), '--json')).toMatchObject({
    status: 0,
    out: expect.stringContaining('"assumedSent": 1') as string,
  })
})
