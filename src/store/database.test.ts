// What every connection promises by itself (decisions A1), whatever the server's default is.
import { expect, test, vi } from 'vitest'
import { startPostgresProxy } from '../../test/world/postgres-proxy.ts'
import { freshDatabase } from '../../test/world/postgres.ts'
import { doneFor } from '../base/turns.ts'
import { limits } from '../config.ts'
import { isDatabaseAway, listen, openDatabase, sql, surelyAborted, type Ask } from './database.ts'

test('a server whose default is to commit without waiting for the disk cannot weaken an acceptance, or its staged content', async () => {
  const fresh = await freshDatabase()
  const open = () => openDatabase(fresh.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
  const before = open()
  await before.run(`alter database ${fresh.connection.database} set synchronous_commit = off`)
  await before.close()
  const db = open()
  const settings = await db.rows<{ name: string; setting: string }>(
    sql(
      'test-settings',
      `select name, setting from pg_settings where name in ('synchronous_commit', 'plan_cache_mode') order by name`,
    ),
  )
  await db.close()
  await fresh.drop()
  expect(settings.map(({ name, setting }) => [name, setting])).toEqual([
    ['plan_cache_mode', 'force_generic_plan'],
    ['synchronous_commit', 'on'],
  ])
})

test("a line that breaks is an outage and proves nothing, though its error's name has five letters like the server's", () => {
  const broken = Object.assign(new Error('write EPIPE'), { code: 'EPIPE', errno: -32, syscall: 'write' })
  expect([surelyAborted(broken), isDatabaseAway(broken)]).toEqual([false, true])
  const refused = Object.assign(new Error('duplicate key'), { code: '23505', severity: 'ERROR' })
  expect([surelyAborted(refused), isDatabaseAway(refused)]).toEqual([true, false])
})

test.each(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT'])(
  'a network that says %s is an outage',
  (code) => {
    const error = Object.assign(new Error(`somewhere ${code}`), { code, syscall: 'connect' })
    expect([surelyAborted(error), isDatabaseAway(error)]).toEqual([false, true])
  },
)

test('of a pool with shares one workspace does not take all connections, and who waits too long hears what an outage sounds like', async () => {
  const fresh = await freshDatabase()
  const db = openDatabase(fresh.connection, { name: 'test', connectionsMax: 2, shareMax: 1, answerMs: 1_000 })
  const ask = sql('test-one', 'select 1 one')
  await doneFor('flood', () =>
    db.transaction(async () => {
      const late = doneFor('flood', () => db.rows(ask)).catch((error: unknown) => error)
      expect(await doneFor('shop', () => db.rows(ask))).toEqual([{ one: 1 }])
      expect(await doneFor('', () => db.rows(ask))).toEqual([{ one: 1 }])
      expect(isDatabaseAway(await late)).toBe(true)
    }),
  )
  expect(await doneFor('flood', () => db.rows(ask))).toEqual([{ one: 1 }])
  await db.close()
  await fresh.drop()
})

test.each(['before', 'after'] as const)(
  'a session that listens is replaced when its line falls silent and nobody closes it (%s a question reaches the server)',
  async (moment) => {
    const fresh = await freshDatabase()
    const proxy = await startPostgresProxy(fresh.connection)
    const sessions: Ask[] = []
    let heard: () => void = () => undefined
    const next = () => new Promise<void>((resolve) => (heard = resolve))
    const first = next()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const ears = listen({ ...fresh.connection, host: '127.0.0.1', port: proxy.port }, 'test', (ask) => {
      sessions.push(ask)
      heard()
    })
    try {
      await first
      const silent = proxy.silence('still-there', moment)
      vi.advanceTimersByTime(limits.listenPulseMs)
      await silent
      // What is asked meanwhile does not wait for ever either: the fence lets nobody else compare itself while one comparison is under way.
      const asked = expect(sessions[0]?.(sql('test-late', 'select 1'))).rejects.toThrow()
      const second = next()
      vi.advanceTimersByTime(limits.listenAnswerMs + 500)
      await asked
      while (sessions.length < 2) {
        vi.advanceTimersByTime(250)
        await Promise.race([second, new Promise((resolve) => setImmediate(resolve))])
      }
      const third = next()
      const db = openDatabase(fresh.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
      await db.run('notify test')
      await db.close()
      await third
      expect(sessions).toEqual([sessions[0], sessions[1], sessions[1]])
      expect(sessions[1]).not.toBe(sessions[0])
    } finally {
      vi.useRealTimers()
      await ears.stop()
      await proxy.stop()
      await fresh.drop()
    }
  },
)
