// Our no, in SMTP (decisions F and I). One row per code; leave one out and the build says which. 4yz where trying again makes sense.
import type { Refusal, RefusalCode } from '../domain/refusal.ts'
import type { MailMistake } from '../mail/submitted-mail.ts'
import type { Reply } from './reply.ts'

type Kind = Pick<Reply, 'code' | 'enhanced'>

export const refusals = {
  invalid_request: { code: 550, enhanced: '5.6.0' },
  invalid_json: { code: 554, enhanced: '5.6.0' },
  invalid_api_key: { code: 535, enhanced: '5.7.8' },
  insufficient_scope: { code: 550, enhanced: '5.7.1' },
  workspace_blocked: { code: 550, enhanced: '5.7.1' },
  upgrade_required: { code: 550, enhanced: '5.7.1' },
  mailbox_not_active: { code: 550, enhanced: '5.7.1' },
  recipient_suppressed: { code: 550, enhanced: '5.7.1' },
  too_many_attachments: { code: 552, enhanced: '5.3.4' },
  attachments_too_large: { code: 552, enhanced: '5.3.4' },
  attachment_infected: { code: 554, enhanced: '5.7.1' },
  scanner_unavailable: { code: 451, enhanced: '4.3.0' },
  hourly_limit_reached: { code: 452, enhanced: '4.7.1' },
  daily_limit_reached: { code: 452, enhanced: '4.7.1' },
  monthly_limit_reached: { code: 452, enhanced: '4.7.1' },
  idempotency_key_reused: { code: 554, enhanced: '5.5.4' },
  idempotency_in_progress: { code: 451, enhanced: '4.3.0' },
  payload_too_large: { code: 552, enhanced: '5.3.4' },
  not_found: { code: 550, enhanced: '5.1.1' },
  // Of people and of management: nothing that SMTP could refuse.
  not_signed_in: { code: 530, enhanced: '5.7.0' },
  wrong_credentials: { code: 535, enhanced: '5.7.8' },
  second_factor_required: { code: 535, enhanced: '5.7.8' },
  cross_site_request: { code: 550, enhanced: '5.7.1' },
  service_unavailable: { code: 451, enhanced: '4.3.0' },
  // Said by management endpoints alone; here because the table is whole.
  too_many_attempts: { code: 450, enhanced: '4.7.1' },
  conflict: { code: 554, enhanced: '5.5.0' },
  internal_error: { code: 451, enhanced: '4.3.0' },
} as const satisfies Record<RefusalCode, Kind>

/** What is wrong with a mail itself, and what it counts as in the record of refused submissions. */
export const mistakes = {
  malformed: { code: 550, enhanced: '5.6.0', counts: 'invalid_request' },
  tooLarge: { code: 552, enhanced: '5.3.4', counts: 'payload_too_large' },
  loop: { code: 554, enhanced: '5.4.6', counts: 'invalid_request' },
  needsSmtputf8: { code: 550, enhanced: '5.6.7', counts: 'invalid_request' },
  sender: { code: 550, enhanced: '5.7.1', counts: 'mailbox_not_active' },
} as const satisfies Record<MailMistake['mistake'], Kind & { counts: RefusalCode }>

/** What acceptance says of a field that SMTP does not have, in the words of what its client has sent. */
const words: Partial<Record<RefusalCode, string>> = {
  mailbox_not_active:
    'This sender is not an active mailbox of your workspace on a verified domain; MAIL FROM and the From of the mail must both be one.',
  idempotency_key_reused:
    'This X-Idempotency-Key was used before with another mail or envelope; use a new key for a new mail.',
  idempotency_in_progress:
    'The same mail, or one with this X-Idempotency-Key, is being accepted at this moment; try again in a second.',
}

/** The sentence of a refusal, as an SMTP client is told it. */
export const wordsOf = ({ code, words: said }: Refusal): string => words[code] ?? said

/** The windows of a used-up quota are told with what is left and when they give room again. */
export function replyTo(refusal: Refusal): Reply {
  const { code, quota, upgradeUrl } = refusal
  const windows = (refusals[code].code === 452 ? (quota ?? []) : []).map(
    ({ window, limit, remaining, resetSeconds }) =>
      `${window} ${remaining} of ${limit} left, reset in ${resetSeconds} s`,
  )
  const more = [upgradeUrl === undefined ? '' : `Upgrade: ${upgradeUrl}`, windows.join('; ')].filter(
    (text) => text !== '',
  )
  return { ...refusals[code], text: [`${code}: ${wordsOf(refusal)}`, ...more.map((text) => `(${text})`)].join(' ') }
}

export function replyToMistake({ mistake, words }: MailMistake): Reply {
  const { code, enhanced } = mistakes[mistake]
  return { code, enhanced, text: words }
}
