// Behind a proxy that says whose each connection is, clients are counted and known as if they had come themselves; nobody else can say so.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { afterEach, expect, test, vi } from 'vitest'
import { afterPoll } from '../base/after-poll.ts'
import { silentLog } from '../base/log.ts'
import { certificateFor } from '../../test/world/certificates.ts'
import { startHaproxy } from '../../test/world/haproxy.ts'
import { hearing } from './hearing.test-kit.ts'
import { openOffer, type Policy } from './policy.ts'
import { introduce } from './proxied.ts'
import { replies } from './reply.ts'
import { smtpServer, type SmtpServerOptions } from './server.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

const { ca, key, cert } = certificateFor('localhost')
/** Version 2 of 192.0.2.7. */
const bytesOf7 = Buffer.from('0d0a0d0a000d0a515549540a2111000cc0000207c63364019c40024b', 'hex')
const lineOf = (address: string): string => `PROXY TCP4 ${address} 198.51.100.1 40000 587\r\n`

/** A server behind a proxy on this machine, whose clients and faults are remembered. */
async function behindProxy(options: Partial<SmtpServerOptions> = {}) {
  const clients: string[] = []
  const faults: string[] = []
  const policy: Policy = { mail: () => replies.senderOk, rcpt: () => replies.recipientOk, message: () => replies.ok }
  const server = smtpServer({
    name: 'test smtp',
    host: '127.0.0.1',
    port: 0,
    proxies: ['127.0.0.0/8'],
    offer: openOffer('mx.test', options.tls !== undefined),
    policy: ({ address }) => {
      clients.push(address)
      return policy
    },
    log: { ...silentLog, fault: (_what, error) => void faults.push(String(error)) },
    ...options,
  })
  await server.start()
  cleanups.push(() => server.stop())
  return { port: server.port(), clients, faults, server }
}

function dial(port: number) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  cleanups.push(() => socket.destroy())
  return { socket, ...hearing(socket) }
}

test.each([
  ['in words', lineOf('192.0.2.7')],
  ['in bytes', bytesOf7],
])('the client is who the proxy says, %s, and nothing of what it says behind it is lost', async (_, header) => {
  const { port, clients } = await behindProxy()
  const line = dial(port)
  line.socket.write(Buffer.concat([Buffer.from(header), Buffer.from('EHLO early\r\nQUIT\r\n')]))
  expect(await line.rest()).toMatch(/^220 [^]*250 [^]*221 /)
  expect(clients).toEqual(['192.0.2.7'])
})

test('its header may come byte by byte, and TLS begins behind it, at once or when it is asked for', async () => {
  const { port, clients } = await behindProxy({ tls: { key, cert }, implicitTls: true })
  const plain = connect({ port, host: '127.0.0.1', noDelay: true })
  cleanups.push(() => plain.destroy())
  await once(plain, 'connect')
  for (const octet of bytesOf7) {
    plain.write(Buffer.of(octet))
    // In one of two turns of the loop the server, which is in this process, reads it: else all would come as one.
    for (let turn = 0; turn < 2; turn++) await setImmediate()
  }
  await hearing(connectTls({ socket: plain, ca, servername: 'localhost' })).until('220 ')

  // Its first word in one piece with the header.
  const [ours, wire] = duplexPair()
  const swift = connect({ port, host: '127.0.0.1', noDelay: true })
  cleanups.push(() => swift.destroy())
  const secure = connectTls({ socket: ours, ca, servername: 'localhost' })
  const [hello] = (await once(wire, 'data')) as [Buffer]
  swift.write(Buffer.concat([bytesOf7, hello]))
  wire.pipe(swift).pipe(wire)
  await hearing(secure).until('220 ')

  const later = await behindProxy({ tls: { key, cert } })
  const line = dial(later.port)
  line.socket.write(`${lineOf('192.0.2.8')}EHLO client\r\nSTARTTLS\r\n`)
  await line.until('220 2.0.0')
  line.socket.removeAllListeners('data')
  const secured = connectTls({ socket: line.socket, ca, servername: 'localhost' })
  secured.write('EHLO client\r\n')
  await hearing(secured).until('250 ')
  expect([clients, later.clients]).toEqual([['192.0.2.7', '192.0.2.7'], ['192.0.2.8']])
})

test('whoever it does not know, and its own health checks, count as the proxy', async () => {
  const { port, clients, faults } = await behindProxy()
  for (const header of ['PROXY UNKNOWN\r\n', Buffer.from('0d0a0d0a000d0a515549540a20000000', 'hex')]) {
    const line = dial(port)
    line.socket.write(header)
    await line.until('220 ')
  }
  const check = dial(port)
  check.socket.end()
  await check.rest()
  expect([clients, faults]).toEqual([['127.0.0.1', '127.0.0.1'], []])
})

test('sessions are counted by client, not by proxy', async () => {
  const { port } = await behindProxy({ limits: { sessionsPerAddressMax: 1 } })
  const from = (address: string) => {
    const line = dial(port)
    line.socket.write(lineOf(address))
    return line
  }
  await from('192.0.2.1').until('220 ')
  await from('192.0.2.2').until('220 ')
  expect(await from('192.0.2.1').rest()).toMatch(/^421 /)
})

test.each([
  ['no header', 'EHLO client\r\n', 'no PROXY header'],
  ['half of one', 'PROXY TCP4 192.0.2.1', 'in the middle'],
])('a proxy that says %s is cut, and an operator hears why', async (_, said, why) => {
  const { port, clients, faults } = await behindProxy()
  const line = dial(port)
  line.socket.end(said)
  expect(await line.rest()).toBe('')
  expect(clients).toEqual([])
  expect(faults).toEqual([expect.stringContaining(why)])
  expect(faults[0]).toContain('127.0.0.1')
})

test('one whose line breaks in the middle is heard of at once, and hurts nobody', async () => {
  const { port, faults } = await behindProxy()
  const line = dial(port)
  line.socket.write('PROXY TCP4 192.0.2.1')
  const next = dial(port)
  next.socket.write(lineOf('192.0.2.1'))
  await next.until('220 ') // both have been taken by now
  line.socket.resetAndDestroy()
  await expect.poll(() => faults).toEqual([expect.stringContaining('in the middle')])
  next.socket.write('NOOP\r\n')
  await next.until('250 ')
})

test('one that waits for our greeting is cut in time: it does not speak the PROXY protocol', async () => {
  const { port, faults } = await behindProxy({ limits: { handshakeMs: 20 } })
  expect(await dial(port).rest()).toBe('')
  expect(faults).toEqual([expect.stringContaining('within 0.02 s')])
})

test('one that has said whose it is may last for longer than that takes', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  cleanups.push(() => vi.useRealTimers())
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanups.push(() => server.close())
  const { socket: client } = dial((server.address() as AddressInfo).port)
  const [socket] = (await once(server, 'connection')) as [Socket]
  const failed = vi.fn()
  const known = new Promise((resolve) => introduce(socket, 1_000, { known: resolve, failed }))
  client.write(lineOf('192.0.2.7'))
  expect(await known).toBe('192.0.2.7')
  vi.advanceTimersByTime(2_000)
  expect([failed.mock.calls, socket.destroyed]).toEqual([[], false])
})

test('what was said while this process stood still has come in time', async () => {
  const server = createServer({ pauseOnConnect: true })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanups.push(() => server.close())
  const { socket: client } = dial((server.address() as AddressInfo).port)
  const [socket] = (await once(server, 'connection')) as [Socket]
  await new Promise((resolve) => client.write(lineOf('192.0.2.7'), resolve)) // it lies in the kernel
  await setImmediate() // behind which timers come first
  const failed = vi.fn()
  const known = new Promise((resolve) => introduce(socket, 1, { known: resolve, failed }))
  socket.resume()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
  expect(await known).toBe('192.0.2.7')
  await afterPoll()
  expect([failed.mock.calls, socket.destroyed]).toEqual([[], false])
})

test('a stop does not wait for it', async () => {
  const { port, server } = await behindProxy()
  const line = dial(port)
  line.socket.write('PROXY ')
  const next = dial(port)
  next.socket.write(lineOf('192.0.2.1'))
  await next.until('220 ') // both have been taken by now
  await server.stop()
  expect(await line.rest()).toBe('')
})

test('who is no proxy cannot say whose a connection is', async () => {
  const { port, clients } = await behindProxy({ proxies: ['192.0.2.0/24'] })
  const line = dial(port)
  line.socket.write(lineOf('192.0.2.7'))
  expect(await line.rest()).toMatch(/^220 [^]*521 [^]*POSTHORN_SMTP_PROXIES/)
  expect(clients).toEqual(['127.0.0.1'])
})

test.each(['send-proxy', 'send-proxy-v2', 'send-proxy-v2 check check-send-proxy inter 20ms'])(
  'behind HAProxy (%s) clients are known by their own addresses, in clear text and over TLS',
  async (says) => {
    const { port, clients, faults } = await behindProxy({ tls: { key, cert } })
    const proxy = await startHaproxy(port, says)
    cleanups.push(() => proxy.stop())
    clients.length = 0
    for (const localAddress of ['127.0.0.7', '127.0.0.8']) {
      const socket = connect({ port: proxy.port, host: '127.0.0.1', localAddress })
      cleanups.push(() => socket.destroy())
      const { until } = hearing(socket)
      await until('220 ')
      socket.write('EHLO client\r\nSTARTTLS\r\n')
      await until('220 2.0.0')
      socket.removeAllListeners('data')
      const secured = connectTls({ socket, ca, servername: 'localhost' })
      secured.write('EHLO client\r\n')
      await hearing(secured).until('250 ')
    }
    expect(clients.filter((address) => address !== '127.0.0.1')).toEqual(['127.0.0.7', '127.0.0.8'])
    expect(faults).toEqual([])
  },
)
