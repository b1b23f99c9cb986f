// The malware scan that every file passes before acceptance (specification 1.5), on both ways in. It fails closed: no verdict, no
// acceptance. Without an engine there is the built-in check, which says what it is; with POSTHORN_CLAMD every file goes to ClamAV as well.
// The limits for archives hold either way: ClamAV calls a bomb clean that it has given up on. Policies: docs/decisions/0016 to 0018.
import { setImmediate } from 'node:timers/promises'
import { isNothingLeft } from '../base/nothing-left.ts'
import { Thread, ThreadTrouble } from '../base/thread.ts'
import { limits, type ClamdAddress } from '../config.ts'
import { clamdAt, EngineBrokeOff, EngineTrouble, type Clamd, type EngineVersion } from './clamd.ts'
import { holdsEicar } from './eicar.ts'
import type { ExamineOrder, Findings } from './examine.ts'

/** An attachment, or a whole message as it was submitted (`message/rfc822`): of that, every leaf is scanned. */
export interface ScanFile {
  readonly filename: string
  readonly contentType: string
  /** A submitted mail: it has to keep the limits of a message for attachments as well. */
  readonly isWholeMail?: boolean
  /** Of a submitted mail: what a person would read of it is asked for, so that a large one is read where it holds up nobody. */
  readonly wantsText?: boolean
  readonly bytes: Buffer
}

/** What is kept with a message that was let in. */
export interface ScanRecord {
  readonly verdict: 'clean'
  readonly engine: string
  readonly signatures?: string
  /** What could not be looked into, and was let through by policy: `encrypted`, `method` (an unknown packing). */
  readonly unexamined?: readonly string[]
}

export type Verdict =
  | { readonly kind: 'clean'; readonly record: ScanRecord; readonly text?: string }
  | { readonly kind: 'infected'; readonly position: number; readonly signature: string }
  /** Beyond what is examined; the words complete "It ...". */
  | { readonly kind: 'refused'; readonly position: number; readonly why: string }
  | Extract<Findings, { kind: 'overfull' }>
  | { readonly kind: 'unavailable'; readonly reason: string }

/** For operators: at the start, and in `posthorn doctor`. */
export interface ScannerFacts extends Partial<EngineVersion> {
  readonly description: string
  /** Why no file can be accepted at this moment. */
  readonly trouble?: string
}

export interface Scanner {
  /** Shown at the start, so that nobody takes the built-in check for an engine. */
  readonly description: string
  /** Whether all that would be asked about this text is answered, and it is clean. For texts of little size: the caller waits. */
  clears(text: Buffer): boolean
  /** Never throws for what the world does. Takes at most `scanMs`, waiting included; owners are served by turns. */
  scan(files: readonly ScanFile[], owner?: string): Promise<Verdict>
  /** Asks the engine, also whether it takes streams as large as our largest message. */
  facts(): Promise<ScannerFacts>
  stop(): Promise<void>
}

export interface ScanTimes {
  readonly scanMs: number
  /** Of that, for our own look into the files. */
  readonly examineMs: number
}

export function makeScanner(clamd: ClamdAddress | undefined, times: ScanTimes = limits): Scanner {
  const thread = new Thread<ExamineOrder, Findings>({
    module: new URL('examine-thread.ts', import.meta.url),
    name: 'malware scan',
    waitingMax: limits.scansWaitingMax,
    heapMegabytesMax: limits.scanThreadHeapMegabytesMax,
  })
  const stop = (): Promise<void> => thread.stop()
  return clamd === undefined ? builtIn(thread, stop, times) : withEngine(thread, stop, times, clamd)
}

const copiedAtOnceBytes = 1024 * 1024
const builtInEngine = 'built-in policy checks'

function builtIn(thread: ExamineThread, stop: () => Promise<void>, times: ScanTimes): Scanner {
  const description = 'built-in policy checks (EICAR test file, archive limits), no signature engine'
  return {
    description,
    clears: (text) => !holdsEicar(text),
    scan: async (files, owner) => {
      const findings = await look(thread, files, false, owner, times)
      return findings.kind === 'clean' ? clean(findings, { engine: builtInEngine }) : findings
    },
    facts: () => Promise.resolve({ description, engine: builtInEngine }),
    stop,
  }
}

function withEngine(
  thread: ExamineThread,
  stop: () => Promise<void>,
  times: ScanTimes,
  address: ClamdAddress,
): Scanner {
  const clamd = clamdAt(address)
  const place = 'path' in address ? `unix:${address.path}` : `tcp://${address.host}:${address.port}`
  const description = `ClamAV at ${place}, and built-in archive limits`
  return {
    description,
    clears: () => false,
    scan: async (files, owner) => {
      const signal = AbortSignal.timeout(times.scanMs)
      const findings = await look(thread, files, true, owner, times)
      if (findings.kind !== 'clean') return findings
      const streams = [...files.map(({ bytes }, position) => ({ position, bytes })), ...findings.leaves]
      try {
        const [infected, version] = await Promise.all([
          firstInfected((bytes) => clamd.scan(bytes, signal, owner), streams),
          clamd.version(signal),
        ])
        return infected ?? clean(findings, version)
      } catch (error) {
        if (error instanceof EngineTrouble) return { kind: 'unavailable', reason: error.message }
        throw error
      }
    },
    facts: async () => {
      const signal = AbortSignal.timeout(times.scanMs)
      try {
        const version = await clamd.version(signal)
        await clamd.scan(Buffer.alloc(limits.clamdStreamBytesMin), signal)
        return { description, ...version }
      } catch (error) {
        if (!(error instanceof EngineTrouble)) throw error
        // Its own words, or what is left of them where it closed while we wrote.
        const hint =
          /size limit/i.test(error.message) || error instanceof EngineBrokeOff
            ? `; StreamMaxLength in clamd.conf must be at least ${limits.clamdStreamBytesMin / 1024 / 1024}M`
            : ''
        return { description, trouble: `${error.message}${hint}` }
      }
    },
    stop,
  }
}

type ExamineThread = Thread<ExamineOrder, Findings>
type Clean = Extract<Findings, { kind: 'clean' }>
type NotClean = Exclude<Verdict, { kind: 'clean' }>

async function look(
  thread: ExamineThread,
  files: readonly ScanFile[],
  wantsLeaves: boolean,
  owner: string | undefined,
  { scanMs, examineMs }: ScanTimes,
): Promise<Clean | NotClean> {
  // A copy for the thread, made when it is its turn, so that one is there at a time.
  const make = async () => {
    const copies: (Omit<ScanFile, 'bytes'> & { readonly bytes: Uint8Array<ArrayBuffer> })[] = []
    for (const file of files) copies.push({ ...file, bytes: await copied(file.bytes) })
    const order = { files: copies, wantsLeaves, ms: examineMs }
    return { order, transfer: copies.map(({ bytes }) => bytes.buffer) }
  }
  try {
    const findings = await thread.ask(make, scanMs, owner)
    return findings.kind === 'late' ? { kind: 'unavailable', reason: 'the examination took too long' } : findings
  } catch (error) {
    if (error instanceof ThreadTrouble || isNothingLeft(error))
      return { kind: 'unavailable', reason: (error as Error).message }
    throw error
  }
}

/** Piece by piece: to copy 20 MB takes 10 to 30 ms, most of it for memory that is touched for the first time. */
async function copied(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const copy = new Uint8Array(Buffer.allocUnsafeSlow(bytes.length).buffer)
  for (let at = 0; at < bytes.length; at += copiedAtOnceBytes) {
    if (at > 0) await setImmediate()
    copy.set(bytes.subarray(at, at + copiedAtOnceBytes), at)
  }
  return copy
}

/** All at once, as far as the client lets them; one that is infected decides, whatever becomes of the others. */
async function firstInfected(
  scan: (bytes: Uint8Array) => ReturnType<Clamd['scan']>,
  streams: readonly { readonly position: number; readonly bytes: Uint8Array }[],
): Promise<NotClean | undefined> {
  const verdicts = await Promise.allSettled(streams.map(({ bytes }) => scan(bytes)))
  for (const [at, each] of verdicts.entries())
    if (each.status === 'fulfilled' && !each.value.clean)
      return { kind: 'infected', position: streams[at]?.position ?? 0, signature: each.value.signature }
  for (const each of verdicts) if (each.status === 'rejected') throw each.reason
  return undefined
}

function clean({ opaque, text }: Clean, version: EngineVersion): Verdict {
  const record = { verdict: 'clean', ...version, ...(opaque.length > 0 && { unexamined: opaque }) } as const
  return { kind: 'clean', record, ...(text !== undefined && { text }) }
}
