// What a message may become, and from what: specification 3.1, decisions B. The database refuses the rest by the same table
// (trigger `message_moves`); a test walks every pair in both.
import type { MessageStatus } from './message.ts'

export const moves = {
  queued: ['sending', 'failed', 'delivery_unknown'], // the last by an operator, after a restore
  retrying: ['sending', 'failed', 'delivery_unknown'],
  sending: ['sent', 'retrying', 'failed', 'delivery_unknown'],
  delivery_unknown: ['sent', 'failed'], // late proof only, under the same epoch
  sent: [],
  failed: [],
} as const satisfies Record<MessageStatus, readonly MessageStatus[]>

export function mayBecome(from: MessageStatus, to: MessageStatus): boolean {
  return (moves[from] as readonly MessageStatus[]).includes(to)
}

/** No automatic move leads out of it: the `outbound` row is gone. */
export function isFinal(status: MessageStatus): boolean {
  return status === 'sent' || status === 'failed' || status === 'delivery_unknown'
}
