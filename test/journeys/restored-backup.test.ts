// Yesterday's database comes back: nobody delivers until an operator has decided, and what was sent since is not sent again (restore fence).
import { Client } from 'pg'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { ending, temporaryFolder } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

let receiver: Receiver
let posthorn: Posthorn
let shop: JourneyWorkspace
beforeAll(async () => {
  receiver = await ending(startReceiver)
})
beforeEach(async () => {
  posthorn = await ending(startPosthorn, {
    settings: {
      POSTHORN_ROUTE: `smtp://127.0.0.1:${receiver.port}`,
      POSTHORN_TIME_SCALE: '600',
      POSTHORN_LEASE_SECONDS: '2',
    },
  })
  shop = await posthorn.workspace()
})

/** Copies the database aside, or puts the copy back in its place; Posthorn must be stopped. */
async function backup(direction: 'save' | 'restore'): Promise<void> {
  const url = new URL(posthorn.env['DATABASE_URL'] ?? '')
  const [name, host, port] = [
    url.pathname.slice(1),
    url.searchParams.get('host') ?? '',
    Number(url.searchParams.get('port')),
  ]
  await posthorn.disconnect()
  const admin = new Client({
    host,
    port,
    user: url.username,
    password: decodeURIComponent(url.password),
    database: 'postgres',
  })
  await admin.connect()
  if (direction === 'restore') await admin.query(`drop database ${name} with (force)`)
  await admin.query(
    direction === 'save'
      ? `create database ${name}_saved template ${name}`
      : `alter database ${name}_saved rename to ${name}`,
  )
  await admin.end()
}

const copies = async (id: string) => (await receiver.ledger()).filter(({ messageId }) => messageId.includes(id)).length
const delivery = async () =>
  ((await (await fetch(`${posthorn.url}/readyz`)).json()) as { detail: { delivery: string } }).detail.delivery
const untilDelivery = (is: string) => posthorn.until(is, async () => (await delivery()) === is)
/** A message that is in the backup unsent, and was sent after it. */
async function sentAfterTheBackup(): Promise<string> {
  const first = await shop.accepted({ recipient: 'ok@there.example' })
  await shop.settled(first) // this node has delivered from this database
  await posthorn.stop()
  await posthorn.startAgain({ POSTHORN_ROLES: 'api' })
  const id = await shop.accepted({ recipient: 'ok+2@there.example' })
  await posthorn.stop()
  await backup('save')
  await posthorn.startAgain()
  await shop.settled(id)
  await posthorn.stop()
  await backup('restore')
  await posthorn.startAgain()
  return id
}

test('behind its own file: fenced, acceptance goes on, and --assume-sent-since sends nothing twice', async () => {
  const since = new Date()
  const id = await sentAfterTheBackup()
  // Found by this very start, and told before its `posthorn ready`.
  expect(posthorn.said()).toMatch(/DELIVERY IS STOPPED \(behind\)/)
  await untilDelivery('stopped (fence: behind)')
  expect((await fetch(`${posthorn.url}/readyz`)).status).toBe(200)
  const fresh = await shop.accepted({ recipient: 'ok+3@there.example' })
  expect(await metric('posthorn_delivery_stopped_by_fence')).toBe(1)
  expect(posthorn.said()).toContain('recover --resume')
  // It survives a restart.
  await posthorn.stop()
  await posthorn.startAgain()
  expect([await delivery(), await copies(fresh), await copies(id)]).toEqual(['stopped (fence: behind)', 0, 1])

  await expect(posthorn.cli('recover')).rejects.toThrow(/give one of/)
  await expect(posthorn.cli('recover', '--assume-sent-since', 'yesterday')).rejects.toThrow(/must be a time/)
  await expect(posthorn.cli('recover', '--assume-sent-since', '2999-01-01T00:00:00Z')).rejects.toThrow(/future/)
  expect(await posthorn.cli('recover', '--assume-sent-since', since.toISOString())).toEqual({
    stoppedBy: ['behind'],
    assumedSent: 1,
    repliesWritten: 0,
  })
  expect(await shop.settled(fresh)).toMatchObject({ processingStatus: 'sent' })
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'delivery_unknown' })
  expect([await copies(id), await copies(fresh)]).toEqual([1, 1])
  expect([await delivery(), await metric('posthorn_delivery_stopped_by_fence')]).toEqual(['not stopped', 0])
}, 180_000)

test('--resume sends what is queued, because the operator says so; and the next restore is found again', async () => {
  const id = await sentAfterTheBackup()
  await untilDelivery('stopped (fence: behind)')
  expect(await posthorn.cli('recover', '--resume')).toMatchObject({ stoppedBy: ['behind'], assumedSent: 0 })
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
  expect(await copies(id)).toBe(2)
  const again = await sentAfterTheBackup()
  await untilDelivery('stopped (fence: behind)')
  expect(await copies(again)).toBe(1)
}, 180_000)

test('a new machine over a database with undelivered mail is fenced; beside one that delivers it is welcome', async () => {
  await shop.settled(await shop.accepted({ recipient: 'ok@there.example' }))
  const beside = await posthorn.anotherNode({ POSTHORN_DATA_DIR: temporaryFolder() })
  const parked = await shop.accepted({ recipient: 'deferred-1@there.example' })
  expect(await delivery()).toBe('not stopped')
  await shop.settled(parked)
  await beside.stop()
  await posthorn.stop()

  await posthorn.startAgain({ POSTHORN_ROLES: 'api' })
  const waiting = await shop.accepted({ recipient: 'ok+4@there.example' })
  const stranger = await posthorn.anotherNode({ POSTHORN_DATA_DIR: temporaryFolder() })
  await untilDelivery('stopped (fence: no_mark)')
  await posthorn.cli('recover', '--resume')
  expect(await shop.settled(waiting)).toMatchObject({ processingStatus: 'sent' })
  await stranger.stop()
}, 180_000)

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${posthorn.env['POSTHORN_METRICS_PORT']}/metrics`)).text()
  return Number(new RegExp(`^${name}(?:\\{.*\\})? (\\d+)$`, 'm').exec(text)?.[1] ?? NaN)
}
