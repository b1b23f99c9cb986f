// The body of every answer that is not a success: specification 2.8, decisions I.
import { Type } from 'typebox'
import type { Static } from 'typebox'

/** Every code that an error body can carry, and what to do about it. Codes are stable; more may come. */
const errorCodes = {
  invalid_request: 'A member, a header or a parameter is wrong; `field` names it. Correct it, do not repeat it.',
  invalid_json: 'The body is not valid JSON in UTF-8.',
  invalid_api_key: 'The API key is missing, unknown, expired or revoked.',
  insufficient_scope: 'The key, or the role of the member, lacks the scope of this endpoint.',
  workspace_blocked: 'The workspace is blocked and cannot send.',
  upgrade_required: 'The plan does not include API sending; `upgradeUrl` leads on.',
  mailbox_not_active: 'No active mailbox of the workspace has this `mailboxId`.',
  recipient_suppressed: 'The recipient is on the suppression list of the workspace.',
  too_many_attachments: 'More than 10 attachments.',
  attachments_too_large: 'More than 20 MB of attachments, decoded, all together.',
  attachment_infected:
    'The malware scan recognised malware in an attachment, or could not examine it within its limits.',
  scanner_unavailable: 'The malware scanner cannot be reached; nothing was accepted. Try again later.',
  hourly_limit_reached: 'The limit of the last 60 minutes is used up.',
  daily_limit_reached: 'The limit of this day (UTC) is used up.',
  monthly_limit_reached: 'The limit of this month (UTC) is used up.',
  idempotency_key_reused: 'The idempotency key was used before, with another body.',
  idempotency_in_progress: 'A request with the same idempotency key is still in progress. Try again in a second.',
  payload_too_large: 'The request body is larger than its endpoint takes: 48 MiB for a message.',
  not_found: 'There is no such thing here, or it is not yours.',
  not_signed_in: 'The session has ended, or there is none. Sign in.',
  wrong_credentials: 'E-mail address, password or code are wrong, or a link was used or has expired.',
  second_factor_required:
    'The password is right; repeat the request with `code` from the authenticator app, or a recovery code.',
  cross_site_request: 'A request with a session cookie must come from the dashboard itself.',
  too_many_attempts: 'This was asked too often, or guessed wrongly too often. Try again after `Retry-After`.',
  conflict: 'It exists already, or its state does not allow this.',
  service_unavailable:
    'The service cannot answer at present. Try again after `Retry-After`; a send with the same `Idempotency-Key`, since it may have been accepted.',
  internal_error: 'Something is broken here. The request id finds it in the log.',
} as const

export const ErrorBody = Type.Object(
  {
    error: Type.String({
      description: 'One plain sentence that names what is wrong and the way out.',
      examples: ['"recipient" must be one e-mail address such as ada@example.com.'],
    }),
    code: Type.Optional(
      Type.String({
        description: [
          'Stable machine code. New codes may be added; treat an unknown one by its status.',
          ...Object.entries(errorCodes).map(([code, meaning]) => `* \`${code}\`: ${meaning}`),
        ].join('\n'),
        examples: ['invalid_request'],
      }),
    ),
    field: Type.Optional(
      Type.String({
        description: 'The member, header or parameter that is wrong, as a dotted path.',
        examples: ['attachments.0.filename'],
      }),
    ),
    upgradeUrl: Type.Optional(
      Type.String({ description: 'Where to change the plan; present on upgrade answers.', format: 'uri' }),
    ),
  },
  { description: 'Every error response has this shape.' },
)
export type ErrorBody = Static<typeof ErrorBody>
