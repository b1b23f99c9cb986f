// The operators' log: JSON lines through a closed vocabulary. One wide line per request or attempt, written at its end, when
// everything is decided. No bodies, no secrets, no full addresses: a recipient appears as its domain only. A message's own
// history is not here but in PostgreSQL, where customers see it.
import pino from 'pino'
import { limits } from '../config.ts'
import { BoundedMap } from './bounded-map.ts'
import { lines, wholeOctets } from './log-lines.ts'
import { escapedJson } from './terminal-controls.ts'

export type Facts = Readonly<Record<string, string | number | boolean | undefined>>

export interface Log {
  /** A submission became a message. */
  accepted(facts: Facts): void
  /** We said no to a caller. */
  refused(facts: Facts): void
  /** One delivery attempt ended. */
  attempted(facts: Facts): void
  /** A provider's report was recorded. */
  reported(facts: Facts): void
  /** A webhook was posted, or its endpoint disabled. */
  notified(facts: Facts): void
  started(facts: Facts): void
  stopped(facts: Facts): void
  /** Nothing is broken here, and yet the operator should know. Whoever says it takes care that it is not said with each message. */
  warned(what: string, words: string, facts?: Facts): void
  /** Something is broken here, or somebody must look. */
  fault(what: string, error: unknown, facts?: Facts): void
}

/** A log to standard error, so that standard output stays for people. */
export function makeLog(level: string): Log {
  // Routine lines are written in blocks, at least once a second; a fault, and the end of the process, flush them.
  const destination = lines(2)
  const out = pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime, messageKey: 'event' },
    // The name of a member in a body, for one, is anybody's, and a log is looked at in a terminal.
    { write: (line) => destination.write(escapedJson(line)) },
  )
  const verb = (event: string) => (facts: Facts) => out.info(facts, event)
  const sparing = spare()
  return {
    accepted: (facts) => out.debug(facts, 'accepted'),
    refused: verb('refused'),
    attempted: verb('attempted'),
    reported: verb('reported'),
    // There are several for each message.
    notified: (facts) =>
      facts['outcome'] === 'delivered' ? out.debug(facts, 'notified') : out.info(facts, 'notified'),
    started: verb('started'),
    stopped: verb('stopped'),
    warned: (what, words, facts = {}) => out.warn({ what, ...facts, words }, 'warned'),
    fault: (what, error, facts = {}) => {
      const described = describe(error)
      const again = sparing(`${what} ${described.message}`)
      if (again === undefined) return
      out.error(whole({ what, ...facts, ...again }, error, described), 'fault')
      destination.flush()
    },
  }
}

/** A log that keeps nothing, for benches and tests that look elsewhere. */
export const silentLog: Log = makeLog('silent')

/**
 * What comes again and again, such as the complaint of each loop about a database that is away, is written a few times a minute; the first line of a
 * later minute tells how many were not. The metrics count them all.
 */
function spare(): (alike: string) => { readonly unwritten?: number } | undefined {
  const minutes = new BoundedMap<string, { readonly beganAt: number; many: number }>(limits.faultsAlikeMax)
  return (alike) => {
    const now = performance.now()
    const minute = minutes.get(alike)
    if (minute !== undefined && now - minute.beganAt < 60_000)
      return ++minute.many > limits.faultsAlikePerMinuteMax ? undefined : {}
    minutes.set(alike, { beganAt: now, many: 1 })
    const unwritten = (minute?.many ?? 0) - limits.faultsAlikePerMinuteMax
    return unwritten > 0 ? { unwritten } : {}
  }
}

/** A chain of causes may be a ring. */
const causesMax = 5

interface Described {
  readonly message: string
  readonly [more: string]: unknown
}

/** Message, kind and causes of an error, and its stack: for the log, never for a caller. `most`: characters of each text. */
function describe(error: unknown, most: Cut = uncut, depth = 0): Described {
  if (!(error instanceof Error)) return { message: shortened(String(error), most.message) }
  const code = (error as { code?: unknown }).code
  return {
    message: shortened(error.message, most.message),
    ...(typeof code === 'string' && { code }),
    ...(most.stack > 0 && { stack: error.stack?.slice(0, most.stack) }),
    ...(error.cause !== undefined && depth < causesMax && { cause: describe(error.cause, most, depth + 1) }),
  }
}

interface Cut {
  readonly message: number
  readonly stack: number
}
const uncut: Cut = { message: Infinity, stack: Infinity }
/** Stacks go first: the words say most. */
const cuts: readonly Cut[] = [
  { message: 1_000, stack: 400 },
  { message: 400, stack: 0 },
  { message: 60, stack: 0 },
]

const shortened = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most)}...` : text)

/** Level, time and event, which stand in each line, too. */
const aroundOctets = 100

/** As much of the error as one line holds that no line of the other process can tear. */
function whole(facts: Facts, error: unknown, described: Described): object {
  const fits = (all: object) => Buffer.byteLength(escapedJson(JSON.stringify(all))) <= wholeOctets - aroundOctets
  let all = { ...facts, error: described }
  for (const most of cuts) {
    if (fits(all)) break
    all = { ...facts, error: describe(error, most) }
  }
  return all
}
