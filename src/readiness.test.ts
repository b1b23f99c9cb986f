// /readyz is open to strangers: however many ask, the database is asked one thing at a time.
import { expect, test } from 'vitest'
import { silentDelivery } from './domain/delivery-stop.ts'
import { watchReadiness } from './readiness.ts'
import { openDatabase, type Db } from './store/database.ts'
import { storeWorld } from './store/store.test-kit.ts'
import { watched } from './store/watched.test-kit.ts'

const world = await storeWorld()

const well = () => Promise.resolve({ answers: true })

test('a crowd that asks at once is one question, and whoever comes behind its answer asks anew', async () => {
  let asked = 0
  const ready = watchReadiness(watched(world.db, { asked: () => asked++ }), well)
  const crowd = () => Promise.all(Array.from({ length: 100 }, ready))
  const answers = await crowd()
  expect(asked).toBe(2)
  expect(answers).toEqual(
    answers.map(() => ({ ready: true, detail: { database: 'reachable', delivery: 'not stopped' } })),
  )
  await world.db.run(`insert into delivery_stops (kind, reason) values ('drain', 'operator')`)
  expect((await crowd())[99]).toEqual({
    ready: true,
    detail: { database: 'reachable', delivery: 'stopped (drain: operator)' },
  })
  expect(asked).toBe(4)
})

test('what stops delivery on this node alone is said beside what stops it everywhere, and mail is accepted all the same', async () => {
  await world.db.run('delete from delivery_stops')
  const ready = watchReadiness(world.db, () => Promise.resolve({ answers: true, ownStop: 'mark' as const }))
  const said = (delivery: string) => ({ ready: true, detail: { database: 'reachable', delivery }, nodeStop: 'mark' })
  expect(await ready()).toEqual(said('stopped (node: the disk of this node does not take its mark)'))
  await world.db.run(`insert into delivery_stops (kind, reason) values ('drain', 'operator')`)
  const both = 'stopped (drain: operator, node: the disk of this node does not take its mark)'
  expect(await ready()).toEqual(said(both))
})

test('a node whose delivery process is silent is not ready, nor one whose database takes nothing, whatever else is well', async () => {
  await world.db.run('delete from delivery_stops')
  const silent = watchReadiness(world.db, () => Promise.resolve({ answers: false }))
  expect(await silent()).toEqual({
    ready: false,
    detail: { database: 'reachable', delivery: silentDelivery },
    nodeStop: 'silent',
  })
  const role = `reading_${process.pid}`
  await world.db.run(`create role ${role} login password 'secret'`)
  await world.db.run(`grant select on delivery_stops to ${role}`)
  await world.db.run(`alter role ${role} set default_transaction_read_only = on`)
  const db = openDatabase(
    { ...world.connection, user: role, password: 'secret' },
    { name: 'ready', connectionsMax: 1, answerMs: 5_000 },
  )
  try {
    expect(await watchReadiness(db, well)()).toMatchObject({
      ready: false,
      detail: { database: expect.stringMatching(/^read-only/) as string, delivery: 'not stopped' },
    })
  } finally {
    await db.close()
    await world.db.run(`drop owned by ${role}`)
    await world.db.run(`drop role ${role}`)
  }
})

test('what keeps us out of the database is told apart, in words that hold no secret', async () => {
  const role = `ready_${process.pid}`
  await world.db.run(`create role ${role} login password 'secret' connection limit 0`)
  const detailOver = async (over: object): Promise<unknown> => {
    const kind = { name: 'ready', connectionsMax: 1, answerMs: 1_000 }
    const db = openDatabase({ ...world.connection, ...over }, kind)
    try {
      return await watchReadiness(db, well)()
    } finally {
      await db.close()
    }
  }
  const notReady = (database: string) => ({ ready: false, detail: { database } })
  try {
    const full = await detailOver({ user: role, password: 'secret' })
    expect(full).toEqual(notReady('not reachable: no connection is left there'))
    await world.db.run(`alter role ${role} connection limit -1`)
    expect(await detailOver({ user: role, password: 'guessed' })).toEqual(
      notReady('not reachable: it refuses our login'),
    )
  } finally {
    await world.db.run(`drop role ${role}`)
  }
  expect(await detailOver({ database: 'nowhere' })).toEqual(notReady('not reachable: there is no such database'))
  expect(await detailOver({ port: 1 })).toEqual(notReady('not reachable'))
  const refusing = (code: string): Db => ({
    ...world.db,
    rows: () => Promise.reject(Object.assign(new Error('password of the user posthorn'), { code })),
  })
  expect(await watchReadiness(refusing('57P03'), well)()).toEqual(
    notReady('not reachable: it is starting up, recovering or going down'),
  )
  expect(await watchReadiness({ ...world.db, rows: () => new Promise(() => undefined) }, well)()).toEqual(
    notReady('not reachable: no answer in time'),
  )
})
