// What somebody without an account can take away from others: nothing that is shared, however many requests they begin.
import { randomBytes, randomUUID } from 'node:crypto'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { addPasswordReset } from '../store/password-resets.ts'
import type { Mistake } from '../workspace/mistake.ts'
import { buildApp } from './app.ts'
import { goodKey, optionsWith } from './face.test-kit.ts'
import { officeWorld } from './office.test-kit.ts'
import { httpServer } from './server.ts'

const office = await officeWorld()
await office.app.listen({ host: '127.0.0.1', port: 0 })
const port = (office.app.server.address() as AddressInfo).port

const sockets: Socket[] = []
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
})

/** Writes and says nothing more; the first line of the answer. */
function asking(at: number, text: string): Promise<string> {
  const socket = connect(at, '127.0.0.1')
  sockets.push(socket)
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1').split('\r\n', 1)[0] ?? ''))
    socket.write(text)
  })
}
const post = (path: string, ...headers: string[]) =>
  [`POST ${path} HTTP/1.1`, 'Host: x', 'Content-Type: application/json', ...headers, '', ''].join('\r\n')

test('a body whose length nobody declared is cut where the endpoint has enough, not where the largest message ends', async () => {
  const chunk = `${(limits.managementRequestBytesMax + 1).toString(16)}\r\n${' '.repeat(limits.managementRequestBytesMax + 1)}\r\n`
  const signIn = post('/api/v1/session', 'X-Posthorn-Csrf: 1', 'Transfer-Encoding: chunked')
  expect(await asking(port, signIn + chunk)).toContain(' 413 ')
  const shop = await office.sender()
  const key = await office.key(shop.workspaceId, 'webhooks.write')
  const replay = post('/api/v1/webhook/replay', `Authorization: Bearer ${key}`, 'Transfer-Encoding: chunked')
  expect(await asking(port, replay + chunk)).toContain(' 413 ')
})

test('posts to feeds, which anybody may begin, take no room from messages', async () => {
  const server = httpServer({
    ...optionsWith({ feed: () => Promise.resolve(() => Promise.resolve({ received: 0 })) }),
    host: '127.0.0.1',
    port: 0,
  })
  await server.start()
  const begun = Math.ceil(limits.largeRequestsBytesMax / limits.feedBytesMax)
  const large = (path: string, bytes: number) =>
    asking(
      server.port,
      post(path, `Authorization: Bearer ${goodKey}`, 'Expect: 100-continue', `Content-Length: ${bytes}`),
    )
  // Of those that there is no room for, none is answered before a while.
  for (let each = 0; each < begun; each++)
    void large(`/feeds/${randomUUID()}`, limits.feedBytesMax).catch(() => undefined)
  expect(await large(`/feeds/${randomUUID()}`, 10)).toContain(' 100 ')
  expect(await large('/api/v1/send', 40 * 1024 * 1024)).toContain(' 100 ')
  for (const socket of sockets) socket.destroy()
  await server.stop()
})

test('the largest file that there is, asked for without gzip by many who do not read it, is in memory once', async () => {
  const app = buildApp(optionsWith())
  const sent: unknown[] = []
  app.addHook('onSend', (_request, _reply, payload, done) => {
    sent.push(payload)
    done(null, payload)
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const script = /<script src="(docs\/scalar[^"]+)"/.exec((await app.inject('/docs')).body)?.[1]
  sent.length = 0
  const many = 20
  for (let each = 0; each < many; each++) {
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
    sockets.push(socket.pause())
    socket.write(`GET /${script} HTTP/1.1\r\nHost: x\r\n\r\n`)
  }
  await expect.poll(() => sent.length, { timeout: 60_000 }).toBe(many)
  expect(sent[0]).toBeInstanceOf(Buffer)
  expect(new Set(sent).size).toBe(1)
  for (const socket of sockets) socket.destroy()
  await app.close()
})

test('however many ask at once, a person has no more open links for a new password, and mails, than a few', async () => {
  const { id } = await office.login()
  const most = limits.passwordResetsPerUserMax
  const { db } = office.office
  // As many as there are connections have begun before the first of them asks.
  const connections = 4
  let begun = 0
  const all = Promise.withResolvers<void>()
  const asked = Array.from({ length: 20 }, () =>
    db
      .transaction(async (tx) => {
        if (++begun === connections) all.resolve()
        await all.promise
        return addPasswordReset(tx, randomBytes(32), id, 60_000, most)
      })
      // Where one cannot even begin, the others wait for nobody.
      .finally(all.resolve),
  )
  expect((await Promise.all(asked)).filter((added) => added)).toHaveLength(most)
})

test('whoever asks for a link while others are at ones that are over waits for nobody, and takes the rest away', async () => {
  const [{ id }, { id: other }] = [await office.login(), await office.login()]
  const { db } = office.office
  const ask = (user: string) =>
    db.transaction((tx) => addPasswordReset(tx, randomBytes(32), user, 60_000, limits.passwordResetsPerUserMax))
  for (const user of [id, other]) expect(await ask(user)).toBe(true)
  await office.world.setClock(new Date(Date.now() + 61_000).toISOString())
  const held = await office.world.holding('select from password_resets where user_id = $1 for update', [other])
  expect(await ask(id)).toBe(true)
  const left = 'select count(*)::integer from password_resets where user_id = $1'
  expect(await office.world.value(left, [id])).toBe(1)
  expect(await office.world.value(left, [other])).toBe(1)
  await held.query('rollback')
  await office.world.setClock()
})

test('asking for new passwords, which is answered at once, is bounded while it is done, and one address keeps nobody else from it', async () => {
  const statusTo = async (remoteAddress: string): Promise<number> => {
    const headers = { 'x-posthorn-csrf': '1' }
    const payload = { email: 'nobody@people.example' }
    const answer = await office.app.inject({
      method: 'POST',
      url: '/api/v1/password-resets',
      remoteAddress,
      headers,
      payload,
    })
    return answer.statusCode
  }
  // Who has an account is asked of the database, which does not answer meanwhile.
  const slow = await office.world.holding('lock table users')
  const most = limits.passwordResetsOfAskerMax
  const ofOne = await Promise.all(Array.from({ length: most + 5 }, () => statusTo('192.0.2.66')))
  expect(ofOne).toEqual([...Array<number>(most).fill(202), ...Array<number>(5).fill(503)])
  expect(await statusTo('192.0.2.7')).toBe(202)
  const left = limits.passwordResetsUnderWayMax - most - 1
  const ofMany = await Promise.all(Array.from({ length: left + 5 }, (_, n) => statusTo(`198.51.100.${n}`)))
  expect(ofMany).toEqual([...Array<number>(left).fill(202), ...Array<number>(5).fill(503)])
  await slow.query('rollback')
  await expect.poll(() => statusTo('192.0.2.66')).toBe(202)
})

test('who tries passwords from one address by the dozen keeps nobody else from signing in', async () => {
  const { email, password } = await office.login()
  const { people } = office.office
  const guess = (n: number) =>
    people.signIn({ email: `guess${n}@people.example`, password: 'wrong wrong' }, { address: '192.0.2.66', agent: '' })
  const guessed = Array.from({ length: 200 }, (_, n) =>
    guess(n).catch(({ refusal }: Partial<Mistake>) => refusal?.code),
  )
  const signedIn = await people.signIn({ email, password }, { address: '192.0.2.7', agent: '' })
  expect(signedIn.token).toHaveLength(43)
  expect(new Set(await Promise.all(guessed))).toEqual(new Set(['service_unavailable', 'wrong_credentials']))
})
