// A receiving server for the tests in this room: it answers each command from a script, polite where the script says nothing, and records
// what reached it, above all whether a final dot did.
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { TLSSocket, type SecureContextOptions } from 'node:tls'
import type { EmailAddress } from '../mail/address.ts'
import type { ArmAnswer } from './arm.ts'
import type { Mail } from './conversation.ts'
import type { Target, TlsRule } from './route.ts'

/** Bytes to say, as they are, or something else to do. */
export type Act = string | ((socket: Socket, peer: Peer) => void)

export type Moment =
  | 'greeting'
  | 'EHLO'
  | 'HELO'
  | 'STARTTLS'
  | 'AUTH'
  | 'MAIL'
  | 'RCPT'
  | 'DATA'
  | 'RSET'
  | 'QUIT'
  /** With the first bytes of content. */
  | 'content'
  | 'dot'
  /** A line that is none of these, such as a password. */
  | 'other'
export type Script = Partial<Record<Moment, Act>>

export const polite: Record<Moment, Act> = {
  greeting: '220 mx.posthorn.test ESMTP\r\n',
  EHLO: '250-mx.posthorn.test\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n',
  HELO: '250 mx.posthorn.test\r\n',
  STARTTLS: startTls,
  AUTH: '235 2.7.0 welcome\r\n',
  MAIL: '250 2.1.0 ok\r\n',
  RCPT: '250 2.1.5 ok\r\n',
  DATA: '354 go on\r\n',
  RSET: '250 2.0.0 ok\r\n',
  QUIT: (socket) => socket.end('221 bye\r\n'),
  content: () => undefined,
  dot: '250 2.0.0 Ok: queued as ABC123\r\n',
  other: '500 what\r\n',
}
/** Replies to three commands come one by one. */
export const withoutPipelining = '250-mx.posthorn.test\r\n250 8BITMIME\r\n'
export const withStartTls = '250-mx.posthorn.test\r\n250-PIPELINING\r\n250 STARTTLS\r\n'

/** Answers nothing from here on. */
export const silence: Act = (socket) => void mute.add(socket)
export const close: Act = (socket) => void socket.destroy()
export const reset: Act = (socket) => void socket.resetAndDestroy()
/** Says `text`, then one byte after another without an end. */
export const drip =
  (text: string, everyMs: number): Act =>
  (socket) => {
    mute.add(socket)
    socket.write(text)
    const timer = setInterval(() => socket.write('x'), everyMs)
    socket.on('close', () => clearInterval(timer))
  }

export interface Peer {
  readonly port: number
  /** How many connections came. */
  connections: number
  /** Connections that are open now. */
  readonly sockets: Set<Socket>
  /** Every command line. */
  readonly heard: string[]
  /** The content of each DATA, as far as it came, stuffed as on the wire, without the final dot. */
  readonly contents: string[]
  dots: number
  stop(): Promise<void>
}

/** The script may differ by connection (from 1). `lingers`: a connection that its client has ended is there until the script ends it. */
export async function startPeer(
  script: Script | ((connection: number) => Script) = {},
  { lingers = false }: { readonly lingers?: boolean } = {},
): Promise<Peer> {
  const server = createServer({ noDelay: true, allowHalfOpen: lingers })
  const sockets = new Set<Socket>()
  const peer: Peer = {
    port: 0,
    connections: 0,
    sockets,
    heard: [],
    contents: [],
    dots: 0,
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      if (server.listening) await once(server.close(), 'close')
    },
  }
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    peer.connections++
    const given = typeof script === 'function' ? script(peer.connections) : script
    serve(socket, { ...polite, ...given }, peer)
    act({ ...polite, ...given }.greeting, socket, peer)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return Object.assign(peer, { port: (server.address() as AddressInfo).port })
}

const mute = new WeakSet<Socket>()
const scripts = new WeakMap<Socket, Record<Moment, Act>>()

function act(act: Act, socket: Socket, peer: Peer): void {
  if (typeof act === 'string') socket.write(act)
  else act(socket, peer)
}

function serve(socket: Socket, script: Record<Moment, Act>, peer: Peer): void {
  scripts.set(socket, script)
  let text = ''
  let inContent = false
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
    while (!mute.has(socket)) {
      if (inContent) {
        if (peer.contents.at(-1) === '' && text !== '') act(script.content, socket, peer)
        const end = text.startsWith('.\r\n') ? 0 : text.indexOf('\r\n.\r\n')
        peer.contents[peer.contents.length - 1] = end === -1 ? text : text.slice(0, end + 2)
        if (end === -1) return
        text = text.slice(end + (end === 0 && text.startsWith('.') ? 3 : 5))
        inContent = false
        peer.dots++
        act(script.dot, socket, peer)
        continue
      }
      const end = text.indexOf('\r\n')
      if (end === -1) return
      const line = text.slice(0, end)
      text = text.slice(end + 2)
      peer.heard.push(line)
      const verb = line.split(' ', 1)[0]?.toUpperCase() ?? ''
      const answer = script[verb in script && verb !== '' ? (verb as Moment) : 'other']
      if (verb === 'DATA' && typeof answer === 'string' && answer.startsWith('354')) {
        inContent = true
        peer.contents.push('')
      }
      if (verb === 'STARTTLS' && answer === startTls) return startTls(socket, peer)
      act(answer, socket, peer)
    }
  })
}

/** Says 220 and goes on encrypted, with the same script. */
export function startTls(socket: Socket, peer: Peer): void {
  socket.write('220 go ahead\r\n')
  encrypt(socket, peer)
}

export function encrypt(socket: Socket, peer: Peer, how: SecureContextOptions = {}): Socket {
  const script = scripts.get(socket)
  if (script === undefined) throw new Error('no script for this socket')
  socket.removeAllListeners('data')
  const secured = new TLSSocket(socket, { isServer: true, key, cert: peerCertificate, ...how })
  serve(secured, script, peer)
  return secured
}

/** Resolves once `ready` is true, looked at whenever the event loop comes around; the test's own time limit ends it. */
export async function until(ready: () => boolean): Promise<void> {
  while (!ready()) await setTimeout(1)
}

export function targetOf(
  peer: { readonly port: number },
  tls: TlsRule = 'opportunistic',
  more: Partial<Target> = {},
): Target {
  return {
    host: 'mx.posthorn.test',
    address: '127.0.0.1',
    port: peer.port,
    tls,
    verify: false,
    connectionsMax: 20,
    provider: 'peer',
    key: `${peer.port}`,
    ...more,
  }
}

export function addressOf(text: string): EmailAddress {
  const [local = '', domain = ''] = text.split('@')
  return { text, local, domain, key: text.toLowerCase(), needsSmtputf8: false }
}

export interface Armable extends Mail {
  readonly arms: number
}

export const content = 'Subject: hello\r\n\r\n.a line with a dot\r\nand one without\r\n'

/** A mail that counts how often it is armed. */
export function mailOf(more: Partial<Mail> = {}, answer: () => Promise<ArmAnswer> = async () => 'armed'): Armable {
  const mail = {
    recipient: addressOf('someone@receiver.test'),
    envelopeFrom: 'b1abc@bounce.sender.test',
    content: Buffer.from(content),
    size: content.length,
    needs8bit: false,
    needsSmtputf8: false,
    arms: 0,
    arm: () => {
      mail.arms++
      return answer()
    },
    deadline: () => Infinity,
    ...more,
  }
  return mail
}

// A key for tests alone, self-signed for mx.posthorn.test, valid for a hundred years.
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg2PNriOnfDkuJ7Mrp
QWtyXekv3uyXnD9cSAQnxXH02euhRANCAAQ0pyip1nRg+wTZtjMh0EaSmKy4USKW
Ef2HQVpFsDHvpQWn4ycwozpDSKh/k8jQA70zw4SBex4WJaYNT7171LXH
-----END PRIVATE KEY-----`
export const peerCertificate = `-----BEGIN CERTIFICATE-----
MIIBqjCCAVCgAwIBAgIUDJHzcqJukgkjq/tgX22pbSmQ6e4wCgYIKoZIzj0EAwIw
GzEZMBcGA1UEAwwQbXgucG9zdGhvcm4udGVzdDAgFw0yNjExMjEwMjU4MjNaGA8y
MTI2MTAyODAyNTgyM1owGzEZMBcGA1UEAwwQbXgucG9zdGhvcm4udGVzdDBZMBMG
ByqGSM49AgEGCCqGSM49AwEHA0IABDSnKKnWdGD7BNm2MyHQRpKYrLhRIpYR/YdB
WkWwMe+lBafjJzCjOkNIqH+TyNADvTPDhIF7HhYlpg1PvXvUtcejcDBuMB0GA1Ud
DgQWBBTxpoZ1u8YQxu63oAu3vajfq3TYtDAfBgNVHSMEGDAWgBTxpoZ1u8YQxu63
oAu3vajfq3TYtDAPBgNVHRMBAf8EBTADAQH/MBsGA1UdEQQUMBKCEG14LnBvc3Ro
b3JuLnRlc3QwCgYIKoZIzj0EAwIDSAAwRQIhAONmuXAyZ5jOF/TUbQM8ciLAKf+X
Z/sH28xUdD4Q9CdyAiBjuK1IQw1E/N36iS/TlmIrXG8fJyD0Y35garEUHn4CYA==
-----END CERTIFICATE-----`
