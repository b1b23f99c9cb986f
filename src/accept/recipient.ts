// Which recipients nobody may write to, on both ways in; asked before the database is.
import { refuse, type Refusal } from '../domain/refusal.ts'
import type { EmailAddress } from '../mail/address.ts'
import { readToken } from '../mail/return-path.ts'

/** Return paths take reports and nothing else: mail to one would be mail about mail. */
export function whyNoRecipient({ local }: EmailAddress): Refusal | undefined {
  return readToken(local) === undefined
    ? undefined
    : refuse('invalid_request', 'The recipient is a return path, which takes reports only.', { field: 'recipient' })
}
