// GET /api/v1/live over a real socket: told when something has changed, and ended when it must be.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { beforeEach, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import { scopes } from '../domain/scopes.ts'
import { revokeKeyRow } from '../store/api-keys.ts'
import type { Sender } from '../store/store.test-kit.ts'
import { makeFold } from '../store/usage.ts'
import { listKeys } from '../workspace/keys.ts'
import { officeWorld, type OfficeWorld } from './office.test-kit.ts'

let office: OfficeWorld
let shop: Sender
let url: string
beforeEach(async () => {
  office = await officeWorld()
  shop = await office.sender()
  await office.app.listen({ host: '127.0.0.1', port: 0 })
  url = `http://127.0.0.1:${(office.app.server.address() as AddressInfo).port}/api/v1/live`
  const session = await office.world.session()
  session.on('notification', ({ payload }) => office.office.live.heard(payload ?? '*'))
  await session.query('listen posthorn_live')
})

/** The names of events as they come; ends with the stream. */
async function* events(response: Response): AsyncGenerator<string> {
  let text = ''
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      yield /^event: (\w+)/.exec(text.slice(0, end))?.[1] ?? 'comment'
      text = text.slice(end + 2)
    }
  }
}
const send = async (sender: Sender) => {
  const key = await office.key(sender.workspaceId, ...scopes)
  const body = { mailboxId: sender.mailboxId, recipient: 'ann@example.org', subject: 's', bodyText: 'b' }
  expect((await office.withKey(key, 'POST', '/send', body)).statusCode).toBe(202)
  await makeFold()(office.world.db)
}

test('a workspace hears of its own changes and of nobody else’s', async () => {
  const browser = await office.signedIn('viewer', shop.workspaceId)
  const cookie = `posthorn=${browser.cookies.get('posthorn')}`
  const response = await fetch(`${url}?workspace=${shop.workspaceId}`, { headers: { cookie } })
  expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/)
  const heard = events(response)
  expect((await heard.next()).value).toBe('ready')
  const other = await office.sender()
  await send(other)
  const next = heard.next()
  expect(await Promise.race([next, send(other).then(() => 'nothing yet')])).toBe('nothing yet')
  await send(shop)
  expect((await next).value).toBe('changed')
  await heard.return(undefined)
})

test('needs the scope, and a workspace that the person belongs to', async () => {
  const other = await office.sender()
  const browser = await office.signedIn('viewer', shop.workspaceId)
  const cookie = `posthorn=${browser.cookies.get('posthorn')}`
  expect((await fetch(`${url}?workspace=${other.workspaceId}`, { headers: { cookie } })).status).toBe(403)
  expect((await fetch(url)).status).toBe(401)
  const key = await office.key(shop.workspaceId, ...scopes.filter((scope) => scope !== 'mail.read'))
  expect((await fetch(url, { headers: { authorization: `Bearer ${key}` } })).status).toBe(403)
})

test('streams of one person are bounded', async () => {
  const key = await office.key(shop.workspaceId, 'mail.read')
  const ask = () => fetch(url, { headers: { authorization: `Bearer ${key}` } })
  const all = await Promise.all(Array.from({ length: limits.liveConnectionsPerUserMax }, ask))
  expect(all.map(({ status }) => status)).toEqual(all.map(() => 200))
  const status = async () => {
    const response = await ask()
    await response.body?.cancel()
    return response.status
  }
  expect(await status()).toBe(429)
  await all[0]?.body?.cancel()
  while ((await status()) === 429) continue
  for (const { body } of all.slice(1)) await body?.cancel()
})

test('streams of one workspace leave room for those of others, however many keys it makes', async () => {
  const keys = Math.ceil(limits.liveConnectionsPerWorkspaceMax / limits.liveConnectionsPerUserMax) + 1
  const held: Response[] = [] // one that nobody holds is closed
  for (let n = 0; n < keys; n++) {
    const authorization = `Bearer ${await office.key(shop.workspaceId, 'mail.read')}`
    const ask = () => fetch(url, { headers: { authorization } })
    held.push(...(await Promise.all(Array.from({ length: limits.liveConnectionsPerUserMax }, ask))))
  }
  expect(held.filter(({ status }) => status === 200)).toHaveLength(limits.liveConnectionsPerWorkspaceMax)
  const other = await office.key((await office.sender()).workspaceId, 'mail.read')
  held.push(await fetch(url, { headers: { authorization: `Bearer ${other}` } }))
  expect(held.at(-1)?.status).toBe(200)
  for (const { body } of held) await body?.cancel()
})

test('who has gone before the key was looked up leaves nothing behind', async () => {
  const authorization = `Bearer ${await office.key(shop.workspaceId, 'mail.read')}`
  const { server } = office.app
  const slow = await office.world.holding('lock table api_keys')
  for (let n = 0; n < limits.liveConnectionsPerUserMax; n++) {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    const asked = new Promise<IncomingMessage>((resolve) => server.once('request', resolve))
    socket.write(`GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n\r\n`)
    const request = await asked
    const left = once(request.socket, 'end')
    socket.destroy()
    await left
  }
  await slow.query('rollback')
  const status = async () => {
    const response = await fetch(url, { headers: { authorization } })
    await response.body?.cancel()
    return response.status
  }
  for (let n = 0; n < 2; n++) expect(await status()).toBe(200)
})

test('who goes while it listens leaves nothing behind', async () => {
  const authorization = `Bearer ${await office.key(shop.workspaceId, 'mail.read')}`
  for (let n = 0; n < limits.liveConnectionsPerUserMax + 2; n++) {
    const socket = connect((office.app.server.address() as AddressInfo).port, '127.0.0.1')
    const asked = new Promise<IncomingMessage>((resolve) => office.app.server.once('request', resolve))
    socket.write(`GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n\r\n`)
    const [bytes] = (await once(socket, 'data')) as [Buffer]
    expect(bytes.toString()).toMatch(/^HTTP\/1\.1 200 /)
    const closed = once((await asked).socket, 'close')
    socket.end()
    await closed
  }
})

test.each(['key', 'session'])('a stream ends with what opened it: a %s', async (how) => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const browser = await office.signedIn('viewer', shop.workspaceId)
    const cookie = `posthorn=${browser.cookies.get('posthorn')}`
    const key = await office.key(shop.workspaceId, 'mail.read')
    const heard = events(
      await fetch(`${url}?workspace=${shop.workspaceId}`, {
        headers: how === 'key' ? { authorization: `Bearer ${key}` } : { cookie },
      }),
    )
    expect((await heard.next()).value).toBe('ready')
    vi.advanceTimersByTime(limits.liveHeartbeatMs)
    expect((await heard.next()).value).toBe('comment')
    if (how === 'session') await browser.ask('DELETE', '/session')
    else
      for (const { id } of await listKeys(office.office.db, shop.workspaceId))
        await revokeKeyRow(office.office.db, shop.workspaceId, id)
    vi.advanceTimersByTime(limits.liveHeartbeatMs)
    expect((await heard.next()).done).toBe(true)
  } finally {
    vi.useRealTimers()
  }
})

test('a stop of the server ends them at once', async () => {
  const key = await office.key(shop.workspaceId, 'mail.read')
  const heard = events(await fetch(url, { headers: { authorization: `Bearer ${key}` } }))
  await heard.next()
  const closed = once(office.app.server, 'close')
  await office.app.close()
  await closed
  expect((await heard.next()).done).toBe(true)
})
