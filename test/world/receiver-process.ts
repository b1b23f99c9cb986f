// Starts the receiver in a process of its own, for tests: waits for its words on stdout instead of sleeping.
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Certificate } from './certificates.ts'
import type { LedgerLine } from './receiver.ts'

export interface ReceiverOptions {
  readonly port?: number
  /** An address of loopback; 127.0.0.1 where it is left out. */
  readonly host?: string
  /** Offers STARTTLS. */
  readonly tls?: Certificate
  /** A position at which every conversation waits for `release`. Announces all positions. */
  readonly hold?: string
  readonly announce?: boolean
  /** Keeps the content in the ledger too. */
  readonly content?: boolean
  /** Offers neither 8BITMIME nor SMTPUTF8. */
  readonly sevenBit?: boolean
}

export interface Announcement {
  readonly position: string
  readonly connection: number
  readonly to?: string | readonly string[]
  readonly helo?: string
}

export interface Receiver {
  readonly port: number
  readonly pid: number
  ledger(): Promise<LedgerLine[]>
  /** The ledger as soon as it has `n` lines. */
  waitFor(n: number, withinMs?: number): Promise<LedgerLine[]>
  /** The next announcement of this position that nobody has waited for yet. */
  reached(position: string, withinMs?: number): Promise<Announcement>
  /** Forgets the announcements that nobody has waited for. */
  forget(): void
  /** Lets everything that is held go on. */
  release(): void
  /** SIGKILL: a mail server that dies. The ledger can still be read. */
  kill(): Promise<void>
  stop(): Promise<void>
}

const patienceMs = 90_000

export async function startReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  const folder = await mkdtemp(join(tmpdir(), 'posthorn-receiver-'))
  const file = join(folder, 'ledger.jsonl')
  const { tls, hold } = options
  const args = [
    '--child',
    '--port',
    String(options.port ?? 0),
    '--host',
    options.host ?? '127.0.0.1',
    '--ledger',
    file,
    ...(options.announce === true || hold !== undefined ? ['--announce'] : []),
    ...(options.content === true ? ['--content'] : []),
    ...(options.sevenBit === true ? ['--seven-bit'] : []),
    ...(hold === undefined ? [] : ['--hold', hold]),
    ...(tls === undefined ? [] : ['--tls', tls.certFile, tls.keyFile]),
  ]
  const script = fileURLToPath(new URL('receiver.ts', import.meta.url))
  const child = spawn(process.execPath, [script, ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  child.stdin.on('error', () => undefined)

  let port: number | undefined
  let lines = 0
  const announcements: Announcement[] = []
  let watchers: (() => void)[] = []
  const wakeAll = () => {
    const woken = watchers
    watchers = []
    for (const wake of woken) wake()
  }
  createInterface(child.stdout).on('line', (line) => {
    const space = line.indexOf(' ')
    const word = line.slice(0, space)
    const rest = line.slice(space + 1)
    if (word === 'listening') port = Number(rest)
    else if (word === 'ledger') lines = Number(rest)
    else if (word === 'at') announcements.push(JSON.parse(rest) as Announcement)
    wakeAll()
  })

  /** Waits until `look` finds something, looking again after each word of the receiver. */
  const until = async <T>(what: string, withinMs: number, look: () => T | undefined): Promise<T> => {
    const deadline = Date.now() + withinMs
    for (;;) {
      const found = look()
      if (found !== undefined) return found
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the receiver ended before ${what}`)
      if (Date.now() >= deadline) throw new Error(`the receiver did not come to ${what} within ${withinMs} ms`)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, deadline - Date.now())
        watchers.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    }
  }
  void exited.then(wakeAll)

  const ledger = async (): Promise<LedgerLine[]> => {
    const text = await readFile(file, 'utf8')
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as LedgerLine)
  }
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
  }

  return {
    port: await until('listening', patienceMs, () => port),
    pid: child.pid ?? 0,
    ledger,
    waitFor: async (n, withinMs = patienceMs) => {
      await until(`${n} lines in its ledger`, withinMs, () => (lines >= n ? true : undefined))
      return ledger()
    },
    reached: (position, withinMs = patienceMs) =>
      until(position, withinMs, () => {
        const at = announcements.findIndex((announcement) => announcement.position === position)
        return at < 0 ? undefined : announcements.splice(at, 1)[0]
      }),
    forget: () => void announcements.splice(0),
    release: () => void child.stdin.write('go\n'),
    kill,
    stop: async () => {
      await kill()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
