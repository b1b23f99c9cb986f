import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { connect as connectTls, DEFAULT_CIPHERS } from 'node:tls'
import { afterEach, describe, expect, test } from 'vitest'
import { silentLog } from '../base/log.ts'
import type { Service } from '../base/service.ts'
import { survivesItsLife } from '../base/service.test-kit.ts'
import { Tally } from '../base/tally.ts'
import { certificateFor } from '../../test/world/certificates.ts'
import { hearing } from './hearing.test-kit.ts'
import { openOffer, type Client, type Policy } from './policy.ts'
import { replies, type Answer } from './reply.ts'
import { smtpServer, type SmtpServer, type SmtpServerOptions } from './server.ts'

const accepting: Policy = {
  mail: () => replies.senderOk,
  rcpt: () => replies.recipientOk,
  message: () => replies.ok,
}

const usual: SmtpServerOptions = {
  name: 'test smtp',
  host: '127.0.0.1',
  port: 0,
  offer: openOffer('mx.test', false),
  policy: () => accepting,
  log: silentLog,
}

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

async function started(options: Partial<SmtpServerOptions> = {}): Promise<SmtpServer> {
  const server = smtpServer({ ...usual, ...options })
  await server.start()
  cleanups.push(() => server.stop())
  return server
}

/** A client that only hears, unless it is told to say something. */
function dial(port: number, socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true })) {
  cleanups.push(() => socket.destroy())
  return { socket, ...hearing(socket), say: (words: string) => socket.write(words) }
}

/** A policy, and the word that the first client's connection has ended on our side. */
function watched(answers: Policy = accepting) {
  const clients: Client[] = []
  let leave: () => void = () => undefined
  const left = new Promise<void>((resolve) => (leave = resolve))
  const policy = (client: Client): Policy => {
    if (clients.push(client) === 1) client.gone.addEventListener('abort', leave)
    return answers
  }
  return { policy, left }
}

function pending() {
  let answer: (answer: Answer) => void = () => undefined
  const promise = new Promise<Answer>((resolve) => (answer = resolve))
  return { promise, answer }
}

const mail = 'HELO c\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\ntext\r\n.\r\n'

describe('life', () => {
  const greets = async (service: Service) => {
    const client = dial((service as SmtpServer).port())
    await client.until('220 mx.test')
    client.socket.destroy()
  }
  survivesItsLife('smtp server', async () => smtpServer(usual), greets)

  test('a port that is in use is named in one sentence', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    cleanups.push(() => other.close())
    const { port } = other.address() as AddressInfo
    const server = smtpServer({ ...usual, port })
    await expect(server.start()).rejects.toThrow(
      `test smtp cannot listen on 127.0.0.1:${port}: another program has the port`,
    )
    await server.stop()
  })

  test('TLS without a certificate is a mistake that is found when the server is made', () => {
    expect(() => smtpServer({ ...usual, implicitTls: true })).toThrow('needs a key and a certificate')
    expect(() => smtpServer({ ...usual, offer: openOffer('mx.test', true) })).toThrow('needs a key and a certificate')
  })

  test('stop says 421 to the idle, lets a message under way get its answer, and then closes', async () => {
    const { promise, answer } = pending()
    const server = await started({ policy: () => ({ ...accepting, message: () => promise }) })
    const idle = dial(server.port())
    await idle.until('220')
    const busy = dial(server.port())
    busy.say(mail)
    await busy.until('354')
    const stopped = server.stop()
    expect(await idle.rest()).toContain('421 4.3.2')
    answer(replies.ok)
    expect(await busy.rest()).toMatch(/250 2\.0\.0 Ok\r\n421 4\.3\.2 .*\r\n$/)
    await stopped
  })

  test('stop ends within its bound, whatever a policy or a peer does', async () => {
    const server = await started({
      policy: () => ({ ...accepting, message: () => pending().promise }),
      limits: { stopMs: 50 },
    })
    const busy = dial(server.port())
    busy.say(mail)
    await busy.until('354')
    await server.stop()
    expect(await busy.rest()).toMatch(/354 [^\n]*\n$/)
  })
})

describe('TLS', () => {
  const { ca, ...tls } = certificateFor()

  test('implicit TLS greets behind the handshake, and the session knows that it is secure', async () => {
    const server = await started({ tls, implicitTls: true })
    const port = server.port()
    const client = dial(port, connectTls({ port, host: '127.0.0.1', ca, servername: 'localhost' }))
    await client.until('220 mx.test')
    client.say(`STARTTLS\r\n${mail}QUIT\r\n`)
    expect(await client.rest()).toMatch(/503 5\.5\.1 TLS[^]*250 [^]*221 /)
  })

  test.each([
    { says: DEFAULT_CIPHERS, takes: 'TLS_AES_128_GCM_SHA256', whose: 'names the suite of SHA-384 first by habit' },
    { says: 'TLS_AES_256_GCM_SHA384', takes: 'TLS_AES_256_GCM_SHA384', whose: 'has no other' },
    {
      says: `TLS_CHACHA20_POLY1305_SHA256:${DEFAULT_CIPHERS}`,
      takes: 'TLS_CHACHA20_POLY1305_SHA256',
      whose: 'has no instructions for AES',
    },
  ])('the keys of a session are derived with SHA-256, unless the client $whose', async ({ says, takes }) => {
    const server = await started({ tls, implicitTls: true })
    const port = server.port()
    const socket = connectTls({ port, host: '127.0.0.1', ca, servername: 'localhost', ciphers: says })
    await dial(port, socket).until('220')
    expect(socket.getCipher().name).toBe(takes)
  })

  test('TLS before version 1.2 is refused', async () => {
    const server = await started({ tls, implicitTls: true })
    const port = server.port()
    const old = connectTls({
      port,
      host: '127.0.0.1',
      ca,
      minVersion: 'TLSv1',
      maxVersion: 'TLSv1.1',
      ciphers: 'ALL:@SECLEVEL=0',
    })
    const [error] = (await once(old, 'error')) as [Error]
    expect(error.message).toMatch(/protocol version|handshake failure|ECONNRESET/)
  })

  test('garbage in a handshake ends that connection and no other', async () => {
    const server = await started({ tls, implicitTls: true })
    const port = server.port()
    const rude = dial(port)
    rude.say('EHLO c\r\nMAIL FROM:<a@b>\r\n')
    expect(await rude.rest()).not.toContain('250')
    const polite = dial(port, connectTls({ port, host: '127.0.0.1', ca, servername: 'localhost' }))
    await polite.until('220')
  })

  test('a handshake that never comes is cut', async () => {
    const server = await started({ tls, implicitTls: true, limits: { handshakeMs: 20 } })
    const silent = dial(server.port())
    expect(await silent.rest()).toBe('')
  })

  test('so is one whose client does not even read that it may begin', async () => {
    const mail = () => ({ code: 550, enhanced: '5.7.1', text: 'no '.repeat(33_000) })
    const { policy, left } = watched({ ...accepting, mail })
    const server = await started({
      policy,
      tls,
      offer: openOffer('mx.test', true),
      limits: { handshakeMs: 20, idleMs: 500, sessionMs: 500 },
    })
    const client = dial(server.port())
    await client.until('220')
    client.socket.pause()
    // In one packet: 20 MB of answers, which is more than the buffers of both ends hold, and behind them the one to STARTTLS.
    client.say(`HELO c\r\n${'MAIL FROM:<a@b>\r\n'.repeat(200)}STARTTLS\r\n`)
    await left
  })

  test('stop does not wait for a handshake', async () => {
    const server = await started({ tls, offer: openOffer('mx.test', true) })
    const client = dial(server.port())
    client.say('STARTTLS\r\n')
    await client.until('Ready to start TLS')
    await server.stop()
    await client.rest()
  })
})

describe('time', () => {
  test('a silent client is told 421 and cut', async () => {
    const server = await started({ limits: { idleMs: 20 } })
    expect(await dial(server.port()).rest()).toMatch(/421 4\.4\.2 Timeout\r\n$/)
  })

  test('a client that spoke in time is heard, also where the process stood still until that was over', async () => {
    const server = await started({ limits: { idleMs: 1_000 } })
    const client = dial(server.port())
    await client.until('220 mx.test')
    await setImmediate() // behind it come the timers, and sockets only then
    client.say('NOOP\r\n')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500)
    expect(await client.rest()).toMatch(/^220 .*\r\n250 .*\r\n421 4\.4\.2 Timeout\r\n$/)
  })

  test.each([
    ['in a command', ''],
    ['in content', 'HELO c\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n'],
  ])('a client that drips single bytes %s makes no progress and is cut', async (_, before) => {
    const server = await started({ limits: { idleMs: 60 } })
    const client = dial(server.port())
    client.say(before)
    const drip = setInterval(() => client.socket.writable && client.say('x'), 5)
    cleanups.push(() => clearInterval(drip))
    expect(await client.rest()).toMatch(/421 4\.4\.2 Timeout\r\n$/)
  })

  test('a session ends at its deadline, however busy it is', async () => {
    const server = await started({ limits: { sessionMs: 60 } })
    const client = dial(server.port())
    client.socket.on('data', () => client.socket.writable && client.say('NOOP\r\n'))
    expect(await client.rest()).toMatch(/421 4\.4\.2 Session too long/)
  })

  test('a client that waits for our decision is not silent: it gets its answer, and the session goes on', async () => {
    const { promise, answer } = pending()
    const server = await started({
      limits: { idleMs: 300 },
      policy: () => ({ ...accepting, message: () => promise }),
    })
    const waiting = dial(server.port())
    waiting.say(mail)
    await waiting.until('354')
    // Another client, silent from now on, tells when the limit has passed.
    await dial(server.port()).rest()
    answer(replies.ok)
    waiting.say('QUIT\r\n')
    expect(await waiting.rest()).toMatch(/250 2\.0\.0 Ok\r\n221 [^\r\n]*\r\n$/)
  })

  test('a client that never closes after our last word is closed', async () => {
    const { policy, left } = watched()
    const server = await started({ policy, limits: { idleMs: 20, closeMs: 20 } })
    const client = dial(0, connect({ port: server.port(), host: '127.0.0.1', allowHalfOpen: true }))
    await client.until('421 4.4.2')
    await left
    expect(client.socket.writableEnded).toBe(false)
  })
})

describe('numbers', () => {
  test('one address may have so many sessions, and a place is free when one leaves', async () => {
    const { policy, left } = watched()
    const server = await started({ policy, limits: { sessionsPerAddressMax: 2 } })
    const first = dial(server.port())
    await first.until('220')
    await dial(server.port()).until('220')
    expect(await dial(server.port()).rest()).toMatch(/^421 4\.7\.0 Too many sessions/)
    first.say('QUIT\r\n')
    await left
    await dial(server.port()).until('220')
  })

  test('over several servers that share their counts, too', async () => {
    const sessions = new Tally()
    const { policy, left } = watched()
    const options = { policy, sessions, limits: { sessionsPerAddressMax: 2 } }
    const [one, other] = [await started(options), await started(options)]
    const first = dial(one.port())
    await first.until('220')
    await dial(other.port()).until('220')
    expect(await dial(one.port()).rest()).toMatch(/^421 4\.7\.0 Too many sessions/)
    expect(await dial(other.port()).rest()).toMatch(/^421 4\.7\.0 Too many sessions/)
    first.say('QUIT\r\n')
    await left
    await dial(other.port()).until('220')
  })

  test('so may all addresses together', async () => {
    const server = await started({ limits: { sessionsMax: 1 } })
    await dial(server.port()).until('220')
    expect(await dial(server.port()).rest()).toMatch(/^421 /)
  })

  test('input beyond what is held waits in the network, and is read later', async () => {
    const { promise, answer } = pending()
    const server = await started({ policy: () => ({ ...accepting, mail: () => promise }) })
    const client = dial(server.port())
    client.say('HELO c\r\nMAIL FROM:<a@b>\r\n')
    // More than the kernel buffers of both ends hold.
    client.say(`NOOP${' '.repeat(500)}\r\n`.repeat(60_000))
    const other = dial(server.port())
    for (let turn = 0; turn < 200; turn++) {
      other.say(`NOOP\r\nVRFY ${turn}\r\nHELO ${turn}\r\n`)
      await once(other.socket, 'data')
    }
    expect(client.socket.writableLength).toBeGreaterThan(0)
    answer(replies.senderOk)
    client.say('QUIT\r\n')
    expect((await client.rest()).split('\r\n').filter((line) => line === '250 2.0.0 Ok')).toHaveLength(60_000)
  })

  test('a client that never reads its replies is not read from, and is cut', async () => {
    let asked = 0
    const mail = () => {
      asked++
      return { code: 550, enhanced: '5.7.1', text: 'no '.repeat(300) }
    }
    const { policy, left } = watched({ ...accepting, mail })
    const server = await started({ policy, limits: { idleMs: 500, closeMs: 20 } })
    const client = dial(server.port())
    await client.until('220')
    client.socket.pause()
    client.say(`HELO c\r\n${'MAIL FROM:<a@b>\r\n'.repeat(200_000)}`)
    await left
    // What the buffers of both ends hold, and no more: all answers would be 180 MB.
    expect(asked).toBeLessThan(50_000)
    // Not cut before it had said anything, which would show nothing.
    expect(asked).toBeGreaterThan(0)
  })
})

test('a renewed certificate is shown to the next connections, and those that are open go on', async () => {
  const [old, renewed] = [certificateFor('old.test'), certificateFor('renewed.test')]
  let fresh: typeof renewed | undefined
  let used: () => void = () => undefined
  const inUse = new Promise<void>((resolve) => (used = resolve))
  const server = await started({
    implicitTls: true,
    tls: old,
    renewed: () => {
      const given = fresh
      fresh = undefined
      return given
    },
    limits: { renewalMs: 5 },
    log: { ...silentLog, started: ({ step }) => void (step !== undefined && used()) },
  })
  const open = () => {
    const socket = connectTls({ port: server.port(), host: '127.0.0.1', rejectUnauthorized: false })
    return { tls: socket, ...dial(server.port(), socket) }
  }
  const before = open()
  await before.until('220 ')
  expect(before.tls.getPeerCertificate().subjectaltname).toContain('old.test')
  fresh = renewed
  await inUse
  const after = open()
  await after.until('220 ')
  expect(after.tls.getPeerCertificate().subjectaltname).toContain('renewed.test')
  before.say('NOOP\r\n')
  expect(await before.until('250 ')).toContain('250 ')
})
