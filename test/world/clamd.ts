// A real clamd with a configuration, a socket and signatures of its own: the EICAR test file, and a word of ours that only it knows. The
// official signatures cannot always be downloaded, and would take a gigabyte.
import { spawn, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { withUs } from './with-us.ts'

export interface Clamd {
  readonly path: string
  /** As POSTHORN_CLAMD wants it. */
  readonly url: string
  /** SIGKILL, as a crash would. */
  kill(): Promise<void>
  /** Again, on the same socket. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** A way to a clamd that can stop in the middle of a stream. */
export interface ClamdDoor {
  readonly url: string
  /** Lets so many bytes of the next connection that has as many through, and no more; resolves when the engine has been given them. */
  holdBehind(bytes: number): Promise<void>
  stop(): Promise<void>
}

const program = '/usr/sbin/clamd'

/** The EICAR test file, never written down in one piece. */
export const eicar = Buffer.from(
  ['X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR', '-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*'].join(''),
  'latin1',
)
/** Known to clamd alone: what is found by it was found by the engine. */
export const ownMalware = Buffer.from('posthorn: this stands for malware that only an engine knows\n')
export const ownMalwareName = 'Posthorn.Test.Malware.UNOFFICIAL'

export async function startClamd(settings: Readonly<Record<string, string>> = {}): Promise<Clamd> {
  if (!existsSync(program)) throw new Error('This test needs clamd (Debian: clamav-daemon).')
  const home = mkdtempSync(join(tmpdir(), 'posthorn-clamd-'))
  const at = (name: string): string => join(home, name)
  mkdirSync(at('signatures'))
  const md5 = createHash('md5').update(eicar).digest('hex')
  writeFileSync(at('signatures/own.hdb'), `${md5}:${eicar.length}:Posthorn.Test.Eicar\n`)
  // Name, any kind of file, at any place, the bytes.
  writeFileSync(at('signatures/own.ndb'), `Posthorn.Test.Malware:0:*:${ownMalware.subarray(0, -1).toString('hex')}\n`)
  const options = {
    DatabaseDirectory: at('signatures'),
    LocalSocket: at('socket'),
    LocalSocketMode: '660',
    FixStaleSocket: 'yes',
    TemporaryDirectory: home,
    LogFile: at('log'),
    StreamMaxLength: '40M',
    MaxScanSize: '100M',
    MaxFileSize: '40M',
    MaxThreads: '4',
    Foreground: 'yes',
    ...(process.getuid?.() === 0 && { User: 'root' }),
    ...settings,
  }
  const conf = Object.entries(options).map(([name, value]) => `${name} ${value}\n`)
  writeFileSync(at('clamd.conf'), conf.join(''))
  let child: ChildProcess | undefined

  const start = async (): Promise<void> => {
    const started = spawn(...withUs(program, ['--config-file', at('clamd.conf')]), { stdio: 'ignore' })
    child = started
    let gone = false
    started.once('exit', () => (gone = true))
    started.once('error', () => (gone = true))
    // It says nothing when it is ready: it answers.
    while (!(await answers(at('socket')))) {
      if (gone) throw new Error(`clamd does not start: ${existsSync(at('log')) ? readFileSync(at('log'), 'utf8') : ''}`)
      await wait(20)
    }
  }
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const ending = child
    child = undefined
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return
    const ended = once(ending, 'exit')
    ending.kill(signal)
    await ended
  }
  await start()
  return {
    path: at('socket'),
    url: `unix:${at('socket')}`,
    kill: () => end('SIGKILL'),
    start,
    stop: async () => {
      await end('SIGKILL') // there is nothing that it would have to put away
      rmSync(home, { recursive: true, force: true })
    },
  }
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => socket.write('zPING\0'))
    socket.once('data', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
  })
}

export async function startClamdDoor(clamd: Clamd): Promise<ClamdDoor> {
  let next: { readonly bytes: number; readonly held: () => void } | undefined
  const open = new Set<Socket>()
  const server = createServer((caller) => {
    const engine = connect(clamd.path)
    let given = 0
    caller.on('data', (chunk: Buffer) => {
      const hold = next !== undefined && given + chunk.length >= next.bytes ? next : undefined
      const through = hold === undefined ? chunk : chunk.subarray(0, hold.bytes - given)
      given += through.length
      engine.write(through, () => hold?.held())
      if (hold === undefined) return
      next = undefined
      caller.pause()
    })
    engine.on('data', (chunk) => caller.write(chunk))
    for (const [socket, other] of [
      [caller, engine],
      [engine, caller],
    ] as const) {
      open.add(socket)
      socket.on('error', () => {}) // it is closed then
      socket.on('close', () => {
        open.delete(socket)
        other.destroy()
      })
    }
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`,
    holdBehind: (bytes) => new Promise((resolve) => (next = { bytes, held: resolve })),
    stop: async () => {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
