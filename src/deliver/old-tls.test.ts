// A host whose TLS is from before 2010: it does not know of secure renegotiation (RFC 5746), which every OpenSSL since then says by itself. So its side
// of the handshake is written by hand here, up to the client's answer.
import { createECDH, randomBytes, sign, X509Certificate } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { certificateFor } from '../../test/world/certificates.ts'
import { Conversation, openConversation } from './conversation.ts'
import { outcomeOf } from './outcome.ts'
import { mailOf, startPeer, targetOf, withStartTls, type Act, type Peer } from './peer.test-kit.ts'

const { key, cert } = certificateFor('mx.posthorn.test')
const manner = { hostname: 'out.sender.test', timeoutScale: 1 }

const counted = (bytes: Buffer, size: 1 | 2 | 3): Buffer => {
  const length = Buffer.alloc(size)
  length.writeUIntBE(bytes.length, 0, size)
  return Buffer.concat([length, bytes])
}
const message = (type: number, body: Buffer): Buffer => Buffer.concat([Buffer.of(type), counted(body, 3)])
const tls12 = Buffer.of(3, 3)
const handshake = 22
const clientKeyExchange = 16
const alert = 21

/** ServerHello without any extension, Certificate, ServerKeyExchange and ServerHelloDone (RFC 5246 7.4, RFC 4492 5.4). */
function oldServersAnswer(hello: Buffer): Buffer {
  const [clientRandom, random] = [hello.subarray(11, 43), randomBytes(32)]
  const noSession = Buffer.of(0)
  const ecdheEcdsaAes128Gcm = Buffer.of(0xc0, 0x2b)
  const uncompressed = Buffer.of(0)
  const namedCurveP256 = Buffer.of(3, 0, 23)
  const exchange = Buffer.concat([namedCurveP256, counted(createECDH('prime256v1').generateKeys(), 1)])
  const ecdsaSha256 = Buffer.of(4, 3)
  const signature = sign('sha256', Buffer.concat([clientRandom, random, exchange]), key)
  const said = [
    message(2, Buffer.concat([tls12, random, noSession, ecdheEcdsaAes128Gcm, uncompressed])),
    message(11, counted(counted(new X509Certificate(cert).raw, 3), 3)),
    message(12, Buffer.concat([exchange, ecdsaSha256, counted(signature, 2)])),
    message(14, Buffer.alloc(0)),
  ]
  return Buffer.concat([Buffer.of(handshake), tls12, counted(Buffer.concat(said), 2)])
}

const peers: Peer[] = []
afterAll(() => Promise.all(peers.map((peer) => peer.stop())))

/** What the client says to the old host's part: the type of the record, and the first byte in it. */
async function answerTo(tls: 'opportunistic' | 'required'): Promise<readonly [answer: number[], outcome: string]> {
  const { promise: answered, resolve: answer } = Promise.withResolvers<number[]>()
  const old: Act = (socket) => {
    socket.removeAllListeners('data').once('data', (hello: Buffer) => {
      socket.write(oldServersAnswer(hello))
      socket.once('data', (said: Buffer) => {
        answer([said[0] ?? 0, said[5] ?? 0])
        socket.destroy()
      })
    })
    socket.write('220 go\r\n')
  }
  const peer = await startPeer((connection) => (connection === 1 ? { EHLO: withStartTls, STARTTLS: old } : {}))
  peers.push(peer)
  const opened = await openConversation(targetOf(peer, tls), manner, [])
  const outcome = opened instanceof Conversation ? await opened.send(mailOf(), []) : opened
  return [await answered, outcomeOf(outcome).kind]
}

test('it is met half way where clear text would be the way out', async () => {
  expect((await answerTo('opportunistic'))[0]).toEqual([handshake, clientKeyExchange])
})

test('where TLS is demanded it is refused: it must deserve the name', async () => {
  const handshakeFailure = 2 // fatal
  expect(await answerTo('required')).toEqual([[alert, handshakeFailure], 'retry'])
})
