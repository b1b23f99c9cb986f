// The reserved domain of the simulator and what each of its addresses does (decisions J).
import { simulatorDomain } from '../domain/simulator.ts'

const behaviours = {
  delivered: 'accepts',
  deferred: 'answers the final dot with 451 4.7.1 twice for each message, then accepts',
  'hard-bounce': '550 5.1.1 at RCPT',
  policy: '550 5.7.1 at RCPT',
  unknown: 'takes the final dot, keeps the message, and drops the connection without a reply',
  slow: 'accepts, but lets its reply to the final dot wait',
  'late-bounce': 'accepts, then returns a delivery status notification: no such user',
  complaint: 'accepts, then returns a complaint of the recipient',
} as const satisfies Record<string, string>
export type Behaviour = keyof typeof behaviours

/** What an address does: `delivered` at every other domain; undefined for an unknown name at the simulator's. */
export function behaviourOf(recipient: string): Behaviour | undefined {
  const at = recipient.lastIndexOf('@')
  if (recipient.slice(at + 1).toLowerCase() !== simulatorDomain) return 'delivered'
  const [name = ''] = recipient.slice(0, at).toLowerCase().split('+')
  return Object.hasOwn(behaviours, name) ? (name as Behaviour) : undefined
}
