// Our no, in HTTP (decisions I). One row per code; leave one out and the build says which.
import type { RefusalCode } from '../domain/refusal.ts'

export const refusals = {
  invalid_request: 400,
  invalid_json: 400,
  invalid_api_key: 401,
  insufficient_scope: 403,
  workspace_blocked: 403,
  upgrade_required: 402,
  mailbox_not_active: 400,
  recipient_suppressed: 422,
  too_many_attachments: 400,
  attachments_too_large: 400,
  attachment_infected: 400,
  scanner_unavailable: 503,
  hourly_limit_reached: 429,
  daily_limit_reached: 429,
  monthly_limit_reached: 429,
  idempotency_key_reused: 409,
  idempotency_in_progress: 409,
  payload_too_large: 413,
  not_found: 404,
  not_signed_in: 401,
  wrong_credentials: 401,
  second_factor_required: 401,
  cross_site_request: 403,
  too_many_attempts: 429,
  conflict: 409,
  service_unavailable: 503,
  internal_error: 500,
} as const satisfies Record<RefusalCode, number>

/** `Retry-After` where the refusal itself does not say. */
export const retryAfterSeconds: Partial<Record<RefusalCode, number>> = {
  hourly_limit_reached: 60,
  daily_limit_reached: 3600,
  monthly_limit_reached: 3600,
  idempotency_in_progress: 1,
  too_many_attempts: 60,
  scanner_unavailable: 10,
  service_unavailable: 2,
}
