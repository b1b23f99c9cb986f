// What a session is made of, given by whoever opens it.
import type { ContentRoom } from './content-room.ts'
import type { Offer, Policy } from './policy.ts'

/** The way out to the peer. */
export interface Wire {
  write(text: string): void
  /** TLS begins now, and `secured` says when it stands. What came in clear text before has been thrown away. */
  startTls(): void
  /** Everything is said: close when it has been written. */
  close(): void
  /** Input that was held back has been worked off. */
  ready(): void
}

export interface SessionLimits {
  readonly commandBytesMax: number
  readonly messageBytesMax: number
  readonly recipientsMax: number
  /** Errors of protocol and failed logins since the last accepted message; then 421. */
  readonly errorsMax: number
}

export interface SessionParts {
  readonly offer: Offer
  readonly policy: Policy
  readonly wire: Wire
  readonly limits: SessionLimits
  readonly room: ContentRoom
  /** TLS from the first byte. */
  readonly secure: boolean
  /** Told of everything that a policy throws. */
  readonly fault: (error: unknown) => void
}
