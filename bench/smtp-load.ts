// The load of the SMTP rows: smtp-load.c, compiled here, is the client of every server; and one session by hand, for a look at how soon a
// client is served.
import { connect as connectTcp, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { connect as connectTls } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { watchCpu, type Usage } from './cpu.ts'
import { findProgram, run } from './processes.ts'

export interface SmtpTarget {
  readonly port: number
  readonly tls: boolean
  readonly login?: { readonly username: string; readonly password: string }
  readonly from: string
  /** Its processes are these and whatever they started. */
  readonly pids: readonly number[]
}

export interface Rate {
  readonly perSecond: number
  readonly usage: Usage
}

/** Sends `count` mails; `kept`: over sessions that stay, else one connection for each. */
export type SmtpLoad = (target: SmtpTarget, count: number, connections: number, kept: boolean) => Promise<Rate>

const source = fileURLToPath(new URL('smtp-load.c', import.meta.url))
/** Of the longest run: the slowest peer over a connection each takes half a minute. */
const loadMs = 600_000

export async function compileSmtpLoad(folder: string): Promise<SmtpLoad> {
  const compiler = findProgram('gcc')
  if (compiler === undefined) throw new Error('gcc is not installed (bench/setup.sh)')
  const program = join(folder, 'smtp-load')
  await run(compiler, ['-O2', '-Wall', '-Wextra', '-Werror', '-o', program, source, '-lssl', '-lcrypto'])
  return async ({ port, tls, login, from, pids }, count, connections, kept) => {
    const many = Math.ceil(count)
    const args = [`${port}`, tls ? 'tls' : 'clear', `${many}`, `${connections}`, kept ? 'kept' : 'single', from]
    const usage = watchCpu(pids, 'smtp-load')
    const words = await run(program, login === undefined ? args : [...args, login.username, login.password], {
      ms: loadMs,
    })
    const [, perSecond] = /^RESULT ([\d.]+)$/m.exec(words) ?? []
    if (perSecond === undefined) throw new Error(`smtp-load measured nothing: ${words}`)
    return { perSecond: Number(perSecond), usage: usage() }
  }
}

/** Connects, says EHLO and logs in, where the target asks for it; then leaves. Answers how many milliseconds it took until it could send. */
export async function comeIn({ port, tls, login }: SmtpTarget): Promise<number> {
  const began = performance.now()
  const socket: Socket = tls
    ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
    : connectTcp({ port, host: '127.0.0.1', noDelay: true })
  const plain = login && Buffer.from(`\0${login.username}\0${login.password}`).toString('base64')
  const steps = [
    { code: '220', say: 'EHLO bench.example' },
    ...(plain === undefined ? [] : [{ code: '250', say: `AUTH PLAIN ${plain}` }]),
    { code: plain === undefined ? '250' : '235', say: 'QUIT' },
  ]
  for await (const line of createInterface({ input: socket })) {
    if (line[3] === '-') continue
    const step = steps.shift()
    if (step === undefined || !line.startsWith(step.code)) throw new Error(`a server said ${line} to a new client`)
    socket.write(`${step.say}\r\n`)
    if (steps.length > 0) continue
    const ms = performance.now() - began
    socket.end()
    return ms
  }
  throw new Error('a server closed the connection of a new client')
}
