// What the bench starts, it ends: every process by its own number, every folder that it made, in the reverse order, at the end, after an
// error and after Ctrl-C.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'

type Undo = () => Promise<unknown>
const undos = new Set<Undo>()

/** Runs at the end of the bench unless the returned function ran before; once, and whoever calls waits for its end. */
export function atTheEnd(undo: Undo): Undo {
  let running: Promise<unknown> | undefined
  const once = () => (running ??= undo().finally(() => undos.delete(once)))
  undos.add(once)
  return once
}

let ending: Promise<void> | undefined

/**
 * Also ends what is started meanwhile: after Ctrl-C the bench itself goes on for a moment. Whoever calls it again waits for the same end: beside it, a program that
 * an undo runs would be taken for one to be ended.
 */
export function endAll(): Promise<void> {
  return (ending ??= undoAll())
}

async function undoAll(): Promise<void> {
  for (let undo = [...undos].at(-1); undo !== undefined; undo = [...undos].at(-1))
    await undo().catch((error: unknown) => console.error(`bench: while cleaning up: ${String(error)}`))
}

/** A folder of its own that any user may pass through: PostgreSQL, Postfix and OpenDKIM do not run as root. */
export function temporaryFolder(): string {
  const path = fs.mkdtempSync(join(tmpdir(), 'posthorn-bench-'))
  fs.chmodSync(path, 0o711)
  atTheEnd(async () => fs.rmSync(path, { recursive: true, force: true, maxRetries: 5 }))
  return path
}

export function folderIn(parent: string, name: string): string {
  const path = join(parent, name)
  fs.mkdirSync(path, { recursive: true, mode: 0o711 })
  fs.chmodSync(path, 0o711)
  return path
}

export interface Running {
  readonly name: string
  readonly pid: number
  /** Both of its outputs: a file, because lines that we read would cost the machine more than the process itself. */
  readonly log: string
  /** Everything it has said so far. */
  said(): string
  /** Waits until it has said something that matches. Throws with its last words when it ends before, or in `ms`. */
  says(pattern: RegExp, ms: number): Promise<RegExpExecArray>
  readonly stop: () => Promise<void>
}

export interface Program {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly folder: string
  /** How long it may take to end when it is asked to. */
  readonly stopMs?: number
}

let starts = 0

export function start({ name, command, args, env = {}, folder, stopMs = 10_000 }: Program): Running {
  if (ending !== undefined) throw new Error(`${name} is not started any more`)
  const log = join(folder, `${name}-${++starts}.log`)
  const output = fs.openSync(log, 'w', 0o600)
  const child = spawn(command, args, {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ['ignore', output, output],
  })
  fs.closeSync(output)
  let failure: string | undefined
  child
    .once('error', (error) => (failure = error.message))
    .once('exit', (status, signal) => {
      failure ??= `ended with ${signal ?? `status ${status}`}`
    })
  const said = (): string => fs.readFileSync(log, 'utf8')
  const stop = atTheEnd(() => end(child, name, stopMs))
  return {
    name,
    pid: child.pid ?? 0,
    log,
    said,
    stop: async () => void (await stop()),
    says: async (pattern, ms) => {
      const deadline = Date.now() + ms
      for (;;) {
        const match = pattern.exec(said())
        if (match !== null) return match
        if (failure !== undefined || Date.now() > deadline)
          throw new Error(
            `${name} ${failure ?? `did not say ${String(pattern)} in ${ms / 1000} s`}: ${lastWords(said())}`,
          )
        await setTimeout(5)
      }
    },
  }
}

const lastWords = (text: string): string => text.trim().split('\n').slice(-6).join(' / ')

async function end(child: ChildProcess, name: string, ms: number): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit').then(() => true)
  child.kill('SIGTERM')
  if (await Promise.race([ended, setTimeout(ms, false, { ref: false })])) return
  console.error(`bench: ${name} did not end within ${ms / 1000} s of being asked, and is killed`)
  child.kill('SIGKILL')
  await ended
}

/** Runs a program to its end and returns what it printed. Throws when it fails or takes longer than `ms`. */
export async function run(
  command: string,
  args: readonly string[],
  { ms = 60_000, env = {} }: { ms?: number; env?: Readonly<Record<string, string>> } = {},
): Promise<string> {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  const forget = atTheEnd(() => end(child, command, 2_000))
  const timer = globalThis.setTimeout(() => child.kill('SIGKILL'), ms)
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  try {
    const [status, signal] = (await once(child, 'close')) as [number | null, string | null]
    if (status === 0) return out
    throw new Error(`${command} ${args.join(' ')} ended with ${signal ?? `status ${status}`}: ${lastWords(err + out)}`)
  } finally {
    clearTimeout(timer)
    await forget()
  }
}

/** Where Debian keeps a program; undefined when it is not installed. Its folders need not be in a user's PATH. */
export function findProgram(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin', '/sbin']
  return folders.map((folder) => join(folder, name)).find((path) => fs.existsSync(path))
}
