// Refusals: how we say no to a caller. A closed list of codes (decisions I), each with public words; every face owns a complete
// table from code to its own language, and the compiler finds the missing row.
import type { QuotaState } from './submission.ts'

export const refusalCodes = [
  'invalid_request',
  'invalid_json',
  'invalid_api_key',
  'insufficient_scope',
  'workspace_blocked',
  'upgrade_required',
  'mailbox_not_active',
  'recipient_suppressed',
  'too_many_attachments',
  'attachments_too_large',
  'attachment_infected',
  'scanner_unavailable',
  'hourly_limit_reached',
  'daily_limit_reached',
  'monthly_limit_reached',
  'idempotency_key_reused',
  'idempotency_in_progress',
  'payload_too_large',
  'not_found',
  'not_signed_in',
  'wrong_credentials',
  'second_factor_required',
  'cross_site_request',
  'too_many_attempts',
  'conflict',
  'service_unavailable',
  'internal_error',
] as const
export type RefusalCode = (typeof refusalCodes)[number]

export interface Refusal {
  readonly refused: true
  readonly code: RefusalCode
  /** One plain sentence that names the field and the way out; never a secret, SQL or a stack trace. */
  readonly words: string
  /** The member of the request that is wrong, as a dotted path: `attachments.0.filename`. */
  readonly field?: string
  /** When trying again makes sense, in whole seconds. */
  readonly retryAfterSeconds?: number
  readonly upgradeUrl?: string
  /** What the operators' log says beside; never an answer to anybody. */
  readonly why?: string
  /** The limited windows of the workspace, where they have been looked at. */
  readonly quota?: readonly QuotaState[]
}

/** What it repeats of a stranger's text may have been cut within a character: half of one is no text to a strict reader of JSON. */
export function refuse(
  code: RefusalCode,
  words: string,
  { field, ...more }: Omit<Refusal, 'refused' | 'code' | 'words'> = {},
): Refusal {
  return {
    refused: true,
    code,
    words: words.toWellFormed(),
    ...more,
    ...(field !== undefined && { field: field.toWellFormed() }),
  }
}

export function isRefusal(value: unknown): value is Refusal {
  return typeof value === 'object' && value !== null && (value as Refusal).refused === true
}
