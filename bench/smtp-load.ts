// An SMTP client for the bench, the same for every server: so many connections, each with one mail after the other, MAIL, RCPT and DATA in
// one packet. Every mail that it counts was answered with 250.
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls, createSecureContext } from 'node:tls'

export interface SmtpTarget {
  readonly port: number
  readonly tls: boolean
  readonly login?: { readonly username: string; readonly password: string }
  readonly from: string
}

const text = 'The quick brown fox jumps over the lazy dog.\r\n'.repeat(20)
/** One for all connections: to make it costs more than a handshake, and no server is to be measured by it. */
const secureContext = createSecureContext({ ecdhCurve: 'X25519' })
let serial = 0

/** Sends `count` mails; `kept`: over sessions that stay, else one connection for each. Answers mails per second. */
export async function smtpLoad(target: SmtpTarget, count: number, connections: number, kept: boolean): Promise<number> {
  let next = 0
  const began = performance.now()
  const client = async (): Promise<void> => {
    let session: Session | undefined
    while (next < count) {
      next++
      session ??= await begin(target)
      await session.send(target.from, `u${serial}@d${serial++ % 20}.example.com`)
      if (kept) continue
      session.end()
      session = undefined
    }
    session?.end()
  }
  await Promise.all(Array.from({ length: connections }, client))
  return count / ((performance.now() - began) / 1000)
}

export interface Session {
  send(from: string, to: string): Promise<void>
  end(): void
}

/** Greeted, and logged in where the target asks for it. */
export async function begin({ port, tls, login }: SmtpTarget): Promise<Session> {
  const socket: Socket = tls
    ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, secureContext })
    : connectTcp({ port, host: '127.0.0.1', noDelay: true })
  const hear = listener(socket)
  const expect = async (...codes: readonly string[]): Promise<void> => {
    for (const code of codes) {
      const line = await hear()
      if (!line.startsWith(code)) throw new Error(`a server said ${line} instead of ${code}`)
    }
  }
  await expect('220')
  socket.write('EHLO bench.example\r\n')
  await expect('250')
  if (login !== undefined) {
    socket.write(`AUTH PLAIN ${Buffer.from(`\0${login.username}\0${login.password}`).toString('base64')}\r\n`)
    await expect('235')
  }
  return {
    send: async (from, to) => {
      socket.write(`MAIL FROM:<${from}>\r\nRCPT TO:<${to}>\r\nDATA\r\n`)
      await expect('250', '250', '354')
      const head = `From: ${from}\r\nTo: ${to}\r\nSubject: Order ${serial}\r\nDate: Sat, 21 Nov 2026 00:00:00 +0000\r\nMessage-ID: <${serial}.${performance.now()}@bench.example>`
      socket.write(`${head}\r\n\r\n${text}.\r\n`)
      await expect('250')
    },
    end: () => void socket.end('QUIT\r\n'),
  }
}

/** The last line of each reply, in order. Throws when the connection ends before. */
function listener(socket: Socket): () => Promise<string> {
  const lines: string[] = []
  let rest = ''
  let failure: Error | undefined
  let wake: () => void = () => undefined
  socket.on('data', (chunk: Buffer) => {
    const parts = (rest + chunk.toString('latin1')).split('\r\n')
    rest = parts.pop() ?? ''
    lines.push(...parts.filter((line) => line[3] !== '-'))
    wake()
  })
  const over = (error?: Error): void => {
    failure ??= error ?? new Error('a server closed the connection')
    wake()
  }
  socket.on('error', over).on('close', () => over())
  return async () => {
    for (;;) {
      const line = lines.shift()
      if (line !== undefined) return line
      if (failure !== undefined) throw failure
      await new Promise<void>((resolve) => (wake = resolve))
    }
  }
}
