// The tests' tools are tried too: a scripted server that is wrong makes wrong tests pass.
import { connect } from 'node:net'
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

test.each([false, true])('plays its script to a real client (every byte alone: %s)', async (splitEveryByte) => {
  const server = await startScriptedServer([polite], { splitEveryByte })
  const transport = createTransport({ host: '127.0.0.1', port: server.port, ignoreTLS: true })
  expect((await transport.sendMail(mail)).response).toBe('250 done')
  transport.close()
  await server.played(1)
  expect(server.transcripts[0]?.filter((line) => line.startsWith('C: '))).toContain('C: RCPT TO:<b@example.org>')
  expect(server.transcripts[0]?.find((line) => line.startsWith('D: '))).toMatch(/hello\r\n\.\r\n$/)
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
