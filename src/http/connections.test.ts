// Connections of one address are bounded, and those of others go on; what is closed makes room again.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { buildApp } from './app.ts'
import { boundConnections } from './connections.ts'
import { optionsWith } from './face.test-kit.ts'

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
