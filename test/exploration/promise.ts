// What must be so at every step, at every move of a message, and when all has become quiet.
import type { MessageId, MessageStatus } from '../../src/domain/message.ts'
import { isFinal } from '../../src/domain/moves.ts'
import type { MessageRecord, Row } from '../simulation/model-database.ts'
import type { State, Truth } from './state.ts'

export const freshTruth = (follows: MessageId | undefined): Truth => ({
  copies: 0,
  unproven: 0,
  armedSuppressed: false,
  excused: false,
  follows,
  againUnknown: 0,
})

export const truthOf = (state: State, id: MessageId): Truth => {
  const known = state.truths.get(id)
  if (known !== undefined) return known
  const fresh = freshTruth(undefined)
  state.truths.set(id, fresh)
  return fresh
}

/** Called before the dot counts. */
export function dotBreach(state: State, id: MessageId): string | undefined {
  const { unproven, armedSuppressed, excused } = truthOf(state, id)
  if (unproven > 0 && !excused) return 'a second dot, though the first was not refused'
  return armedSuppressed ? 'a dot, though its recipient was suppressed when it was armed' : undefined
}

/** `row`: as it was armed; undefined where somebody decides without it. */
export function moveBreach(
  state: State,
  record: MessageRecord,
  from: MessageStatus,
  row: Row | undefined,
): string | undefined {
  const { id, status } = record
  const { copies, unproven, excused } = truthOf(state, id)
  // A worker of before hands back what a server that took over has of his claim: nobody sends it before somebody has decided.
  const waits = status === 'retrying' && state.lacksSince !== undefined
  if ((status === 'retrying' || status === 'failed') && unproven > 0 && !excused && !waits)
    return `${status}, though its dot was not refused`
  if (status === 'sent' && copies === 0) return 'sent, and nobody has a copy'
  // What a server lacks that took over, or an operator assumes, was armed elsewhere.
  if (status === 'delivery_unknown' && state.failovers === 0 && row !== undefined && row.armedEpoch === null)
    return `unknown from ${from}, and was not armed`
  return undefined
}

/** A message, and what was sent in its place. */
function againBreach(truths: State['truths']): string | undefined {
  for (const [id, { copies, excused, againUnknown }] of truths) {
    const followers = [...truths.values()].filter(({ follows }) => follows === id)
    const all = followers.reduce((sum, follower) => sum + follower.copies, copies)
    if (all > 1 + againUnknown && !excused && !followers.some((follower) => follower.excused))
      return `${all} copies, and a person has asked for ${againUnknown} more than one`
  }
  return undefined
}

export function stateBreach({ tables, failovers, lostDisks, truths }: State): string | undefined {
  const { messages, outbound, stops } = tables
  for (const { id, status } of messages.values()) {
    const row = outbound.get(id)
    if ((row === undefined) !== isFinal(status)) return `${status}, and ${row === undefined ? 'not ' : ''}in the queue`
    if (row !== undefined && row.status !== status) return `${status} by its record, and ${row.status} in the queue`
    if (row !== undefined && (row.status === 'sending') !== (row.leaseUntil !== null))
      return `${status} ${row.leaseUntil === null ? 'without' : 'with'} a lease`
    if (row !== undefined && row.status !== 'sending' && row.armedEpoch !== null) return `${status} and armed`
  }
  for (const { copies, excused } of truths.values()) if (copies > 1 && !excused) return 'a second copy'
  const again = againBreach(truths)
  if (again !== undefined) return again
  const reason = stops.get('fence')?.reason
  if ((reason === 'behind' || reason === 'orphaned_reply') && failovers === 0)
    return `delivery is stopped (${reason}), and nothing was lost`
  if (reason === 'no_mark' && failovers === 0 && lostDisks === 0)
    return 'delivery is stopped (no_mark), and every disk is there'
  if (stops.has('pause') && failovers === 0) return 'delivery pauses, and nothing took over'
  return undefined
}

/** Of replies that were written down, or are held by who lives on, when the quiet began. */
export interface Held {
  readonly id: MessageId
  readonly status: 'sent' | 'failed'
}

export function endBreach({ tables, truths }: State, held: readonly Held[]): string | undefined {
  for (const { id, status } of tables.messages.values()) {
    const { copies, unproven, excused } = truths.get(id) ?? freshTruth(undefined)
    if (status === 'sent' && copies !== 1 && !excused) return `sent, with ${copies} copies`
    if (status === 'failed' && unproven > 0 && !excused) return 'failed, though its dot was not refused'
    if (status === 'delivery_unknown' && held.some((each) => each.id === id))
      return 'unknown, though the reply to its dot was held'
  }
  return undefined
}
