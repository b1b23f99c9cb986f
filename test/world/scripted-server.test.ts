// The tests' tools are tried too: a scripted server that is wrong makes wrong tests pass.
import { connect } from 'node:net'
import { Duplex, PassThrough } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { createTransport } from 'nodemailer'
import { expect, test } from 'vitest'
import { certificateFor } from './certificates.ts'
import { startScriptedServer, type Step } from './scripted-server.ts'

const polite: Step[] = [
  { send: '220 mx\r\n' },
  { expect: 'EHLO *' },
  { send: '250 mx\r\n' },
  { expect: 'MAIL FROM:<a@example.com>' },
  { send: '250 ok\r\n' },
  { expect: /^RCPT TO:/ },
  { send: '250 ok\r\n' },
  { expect: 'DATA' },
  { send: '354 go\r\n' },
  { expectData: true },
  { send: '250 done\r\n' },
]
const mail = { from: 'a@example.com', to: 'b@example.org', text: 'hello' }

test('plays its script to a real client', async () => {
  const server = await startScriptedServer([polite])
  const transport = createTransport({ host: '127.0.0.1', port: server.port, ignoreTLS: true })
  expect((await transport.sendMail(mail)).response).toBe('250 done')
  transport.close()
  await server.played(1)
  expect(server.transcripts[0]?.filter((line) => line.startsWith('C: '))).toContain('C: RCPT TO:<b@example.org>')
  expect(server.transcripts[0]?.find((line) => line.startsWith('D: '))).toMatch(/hello\r\n\.\r\n$/)
  await server.stop()
})

test('says every byte alone where it is asked to, in clear text and below TLS', async () => {
  const certificate = certificateFor('mx.example.test')
  const starttls: Step[] = [{ send: '220 go\r\n' }, { tls: certificate }, { send: '250 hi\r\n' }, 'close']
  const server = await startScriptedServer([starttls], { splitEveryByte: true })
  const pieces: number[] = []
  const records: string[] = []
  // It reads the wire itself, so that it sees the pieces below TLS too.
  const socket = connect(server.port, '127.0.0.1')
  const wire = new PassThrough()
  socket.on('data', (chunk: Buffer) => {
    pieces.push(chunk.length)
    if (pieces.length > '220 go\r\n'.length) wire.write(chunk)
    else if (pieces.length === '220 go\r\n'.length) secure()
  })
  const secure = (): void => {
    const duplex = Duplex.from({ readable: wire, writable: socket })
    const session = connectTls({ socket: duplex, ca: certificate.ca, servername: 'mx.example.test' })
    session.on('error', () => undefined) // a stream that is torn down with its session says so
    session.on('data', (chunk: Buffer) => records.push(chunk.toString())).on('end', () => session.end())
  }
  await server.played(1)
  expect(new Set(pieces)).toEqual(new Set([1]))
  expect(records).toEqual('250 hi\r\n'.split(''))
  await server.stop()
})

test('turns on TLS with the certificate it was given', async () => {
  const certificate = certificateFor('mx.example.test')
  const [greeting, ehlo, ok, ...rest] = polite as [Step, Step, Step, ...Step[]]
  const starttls: Step[] = [{ send: '250-mx\r\n250 STARTTLS\r\n' }, { expect: 'STARTTLS' }, { send: '220 go\r\n' }]
  const server = await startScriptedServer([[greeting, ehlo, ...starttls, { tls: certificate }, ehlo, ok, ...rest]])
  const tls = { ca: certificate.ca, servername: 'mx.example.test' }
  const transport = createTransport({ host: '127.0.0.1', port: server.port, requireTLS: true, tls })
  expect((await transport.sendMail(mail)).response).toBe('250 done')
  transport.close()
  await server.played(1)
  await server.stop()
})

test('says when the script was not followed', async () => {
  const server = await startScriptedServer([[{ send: '220 mx\r\n' }, { expect: 'EHLO *' }]])
  const socket = connect(server.port, '127.0.0.1').on('error', () => undefined)
  socket.write('HELO c\r\n')
  await expect(server.played(1)).rejects.toThrow('expected EHLO *, got HELO c')
  await server.stop()
})
