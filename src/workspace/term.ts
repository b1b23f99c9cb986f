// From when to when a key or an SMTP credential is good, and what is known of its use: shown alike of both.
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
  return {
    ...(typeof row.made_by === 'string' && { createdBy: row.made_by }),
    createdAt: row.created_at,
    ...(row.last_used_at !== null && { lastUsedAt: row.last_used_at }),
    ...(row.expires_at !== null && { expiresAt: row.expires_at }),
    expired: row.expired,
    ...(row.revoked_at !== null && { revokedAt: row.revoked_at }),
  }
}
