// From when to when a key or an SMTP credential is good, and what is known of its use: shown alike of both.
import { given } from '../base/given.ts'
import type { TermRow } from '../store/term.ts'

export interface Term {
  /** Where the audit log still knows. */
  readonly createdBy?: string
  readonly createdAt: Date
  readonly lastUsedAt?: Date
  /** Of an SMTP credential: where it was made by a key that ends; then, too. */
  readonly expiresAt?: Date
  readonly expired: boolean
  readonly revokedAt?: Date
}

export function presentTerm(row: TermRow): Term {
  return given<Term>({
    createdBy: row.made_by,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    expiresAt: row.expires_at,
    expired: row.expired,
    revokedAt: row.revoked_at,
  })
}
