// Connections of one address are bounded, and those of others go on; what is closed makes room again.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { buildApp } from './app.ts'
import { boundConnections } from './connections.ts'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import { goodKey, messageId, optionsWith, principal, recordOf, validBody } from './face.test-kit.ts'

const servers: Server[] = []
const sockets: Socket[] = []
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await Promise.all(servers.splice(0).map((server) => once(server.close(), 'close')))
})

/** Greets whoever is let in. */
async function serverThatTakes(most: number, free: readonly string[]): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => undefined))
  servers.push(server)
  boundConnections(server, most, free)
  server.on('connection', (socket: Socket) => socket.destroyed || socket.write('hello'))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}

async function comesIn(port: number, localAddress: string): Promise<Socket | undefined> {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  sockets.push(socket)
  socket.on('error', () => undefined)
  const heard = await Promise.race([once(socket, 'data'), once(socket, 'close').then(() => undefined)])
  return heard === undefined ? undefined : socket
}

test('one address holds so many connections and no more; another one comes in', async () => {
  const port = await serverThatTakes(2, [])
  const first = await comesIn(port, '127.0.0.1')
  expect(first).toBeDefined()
  expect(await comesIn(port, '127.0.0.1')).toBeDefined()
  expect(await comesIn(port, '127.0.0.1')).toBeUndefined()
  expect(await comesIn(port, '127.0.0.2')).toBeDefined()

  first?.destroy()
  await expect.poll(async () => (await comesIn(port, '127.0.0.1')) !== undefined).toBe(true)
  expect(await comesIn(port, '127.0.0.1')).toBeUndefined()
})

test.each(['127.0.0.3', '127.0.0.0/29'])('a proxy (%s) speaks for many', async (proxy) => {
  const port = await serverThatTakes(1, [proxy])
  for (let each = 0; each < 3; each++) expect(await comesIn(port, '127.0.0.3')).toBeDefined()
})

test('of this machine the API takes as many as of all together: a proxy may stand on it that nobody named', async () => {
  const app = buildApp(optionsWith())
  servers.push(app.server)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const held = await Promise.all(
    Array.from({ length: limits.httpConnectionsPerAddressMax }, async () => {
      const socket = connect(port, '127.0.0.1')
      sockets.push(socket)
      await once(socket, 'connect')
    }),
  )
  expect(held).toHaveLength(limits.httpConnectionsPerAddressMax)
  const answer = await fetch(`http://127.0.0.1:${port}/healthz`)
  expect(answer.status).toBe(200)
})

test('behind a proxy the requests of one caller that are under way are bounded, and those of others go on', async () => {
  const app = buildApp({
    ...optionsWith({ feed: () => Promise.resolve(() => Promise.resolve({ received: 0 })) }),
    trustProxy: ['127.0.0.1'],
  })
  servers.push(app.server)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  /** A body that does not come. */
  const begun = async (caller: string): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1')
    sockets.push(socket)
    socket.write(
      `POST /feeds/0199f1c2-0000-7000-8000-00000000000c HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${caller}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`,
    )
    return socket
  }
  const heardOf = async (caller: string): Promise<string> => {
    const [bytes] = (await once(await begun(caller), 'data')) as [Buffer]
    return bytes.toString().split('\r\n', 1)[0] ?? ''
  }
  const wanted = 'HTTP/1.1 100 Continue'
  const heard = await Promise.all(
    Array.from({ length: limits.httpConnectionsPerAddressMax }, () => heardOf('192.0.2.1')),
  )
  expect(new Set(heard)).toEqual(new Set([wanted]))
  expect(await heardOf('192.0.2.1')).toBe('HTTP/1.1 503 Service Unavailable')
  expect(await heardOf('198.51.100.1, 192.0.2.1')).toBe('HTTP/1.1 503 Service Unavailable')
  expect(await heardOf('192.0.2.2')).toBe(wanted)

  sockets[0]?.destroy()
  await expect.poll(() => heardOf('192.0.2.1')).toBe(wanted)
})

/** How long each keeps a connection to us that it does not use, as it comes, in seconds. */
const kept = { nginx: 60, 'AWS load balancer': 60, Traefik: 90, cloudflared: 90, Caddy: 120 }
test.each(Object.entries(kept))('%s gives up an idle connection (%i s) before we do', (_name, seconds) => {
  // Else now and then a request meets our goodbye, and its caller gets a 502: nobody but the caller may send a POST again.
  expect(buildApp(optionsWith()).server.keepAliveTimeout).toBeGreaterThanOrEqual((seconds + 5) * 1_000)
})

test('a request that came in time is answered, also where the process stood still until the time of its idle connection was over', async () => {
  const app = buildApp(optionsWith())
  servers.push(app.server)
  Object.assign(app.server, { keepAliveTimeout: 1_000, keepAliveTimeoutBuffer: 0 }) // the same, sooner
  await app.listen({ host: '127.0.0.1', port: 0 })
  const came = once(app.server, 'connection') as Promise<[Socket]>
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
  sockets.push(socket)
  let answers = ''
  socket.on('error', () => undefined).on('data', (bytes: Buffer) => (answers += bytes.toString('latin1')))
  const ask = () => socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
  const answered = () => answers.split('HTTP/1.1 200 OK').length - 1
  ask()
  const [theirs] = await came
  await expect.poll(() => [answered(), theirs.timeout]).toEqual([1, 1_000])
  await setImmediate() // behind it come the timers, and sockets only then
  ask()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500)
  await expect.poll(() => socket.destroyed || answered() === 2).toBe(true)
  expect(answered()).toBe(2)
  await once(theirs, 'close') // of its silence
})

test('who does not read what it has asked for keeps neither that nor its connection for ever', async () => {
  const app = buildApp(optionsWith())
  servers.push(app.server)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const came = once(app.server, 'connection') as Promise<[Socket]>
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
  sockets.push(socket.pause())
  const one = 'GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n'
  socket.write(one.repeat(limits.httpPipelinedMax))
  const [theirs] = await came
  await expect.poll(() => theirs.writableLength, { timeout: 60_000 }).toBeGreaterThan(0)
  expect(theirs.timeout).toBe(limits.silentConnectionMs)
  theirs.setTimeout(200) // the same, sooner
  await once(theirs, 'close')
})

test.each([
  ['over a connection of its own', 1],
  ['behind others of its connection', 4],
])(
  'answers that nobody reads, each %s, are bounded together: who holds most loses some, and others none',
  async (_how, ofConnection) => {
    const greedy = '0199f1c2-0000-7000-8000-0000000000a1' as WorkspaceId
    const modest = '0199f1c2-0000-7000-8000-0000000000a2' as WorkspaceId
    const large = '\u0001'.repeat(limits.bodyTextBytesMax)
    const recipient = parseAddress('ada@example.com') as EmailAddress
    const kept = recordOf({ ...validBody, workspaceId: greedy, source: 'rest', recipient, attachments: [] })
    const app = buildApp(
      optionsWith({
        authenticate: (secret) => Promise.resolve({ ...principal, workspaceId: secret === goodKey ? greedy : modest }),
        readStatus: (workspaceId) => {
          const bodyText = workspaceId === greedy ? large : large.slice(0, 1024 * 1024)
          return Promise.resolve({ message: { ...kept, workspaceId, bodyText }, events: [] })
        },
      }),
    )
    servers.push(app.server)
    const theirs: Socket[] = []
    app.server.on('connection', (socket: Socket) => theirs.push(socket))
    await app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = app.server.address() as AddressInfo
    const ask = (key: string, times: number): Socket => {
      const socket = connect(port, '127.0.0.1')
      sockets.push(socket)
      socket.on('error', () => undefined)
      socket.write(
        `GET /api/v1/messages/${messageId} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`.repeat(times),
      )
      return socket
    }
    const quiet = ask(goodKey.replaceAll('k', 'm'), 1)
    await expect.poll(() => theirs[0]?.writableLength ?? 0).toBeGreaterThan(0)

    const many = Math.ceil((1.5 * limits.unreadAnswersBytesMax) / JSON.stringify(large).length) + 1
    const connections = Math.ceil(many / ofConnection)
    for (let n = 0; n < connections; n++) ask(goodKey, ofConnection)
    await expect.poll(() => theirs.filter((socket) => socket.destroyed).length, { timeout: 60_000 }).toBeGreaterThan(0)
    expect(theirs.reduce((sum, { writableLength }) => sum + writableLength, 0)).toBeLessThan(
      limits.unreadAnswersBytesMax,
    )

    // Whoever holds less than they do reads on, as slowly as they like.
    let heard = 0
    quiet.on('data', (bytes: Buffer) => (heard += bytes.length))
    await expect.poll(() => heard).toBeGreaterThan(6 * 1024 * 1024)
  },
)

test('requests that a connection sends ahead are bounded: those beyond are refused unseen, in their order, and the connection goes on', async () => {
  let release = (): void => undefined
  const held = new Promise<void>((resolve) => (release = resolve))
  let looked = 0
  const app = buildApp(
    optionsWith({
      feed: async () => {
        looked++
        await held
        return undefined
      },
    }),
  )
  servers.push(app.server)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
  sockets.push(socket)
  const one = 'POST /feeds/0199f1c2-0000-7000-8000-00000000000c HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n'
  const [most, more] = [limits.httpPipelinedMax, 20]
  socket.write(one.repeat(most + more))
  await expect.poll(() => looked).toBe(most)
  release()
  let heard = ''
  socket.on('data', (bytes: Buffer) => (heard += bytes.toString()))
  const statuses = () => [...heard.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1])
  await expect.poll(statuses).toEqual([...Array<string>(most).fill('404'), ...Array<string>(more).fill('503')])
  socket.write(one)
  await expect.poll(() => statuses().length).toBe(most + more + 1)
  expect([statuses().at(-1), looked]).toEqual(['404', most + 1])
})
