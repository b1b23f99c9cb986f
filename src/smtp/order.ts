// What may be said when (RFC 5321 4.1.4, RFC 3207, RFC 4954): where a session stands, and for each command the reason why it may
// not come now.
import type { MailParameters, Offer } from './policy.ts'
import { replies, type Reply } from './reply.ts'

export interface Transaction {
  readonly from: string
  readonly parameters: MailParameters
  readonly recipients: string[]
  /** Whether RCPT was said at all, if only in vain. */
  rcptSaid: boolean
}

/** What has been said and proven so far. */
export interface Standing {
  greeted: boolean
  secure: boolean
  hello: 'EHLO' | 'HELO' | undefined
  user: string | undefined
  /** Why nobody could say whether the login is right. */
  loginTrouble: Reply | undefined
  transaction: Transaction | undefined
}

export const newStanding = (secure: boolean): Standing => ({
  greeted: false,
  secure,
  hello: undefined,
  user: undefined,
  loginTrouble: undefined,
  transaction: undefined,
})

export function whyNotMail(standing: Standing, { mailNeeds }: Offer): Reply | undefined {
  const { secure, hello, user, loginTrouble, transaction } = standing
  if (hello === undefined) return replies.sayEhlo
  if (mailNeeds.tls && !secure) return replies.tlsFirst
  // dma goes on without a login where that fails: a no for good would be the end of a mail that waits for us.
  if (mailNeeds.auth && user === undefined) return loginTrouble ?? replies.loginFirst
  return transaction && replies.outOfOrder
}

/** For DATA and BDAT alike. */
export function whyNotContent({ transaction }: Standing): Reply | undefined {
  if (transaction === undefined) return replies.sayMail
  if (transaction.recipients.length > 0) return undefined
  return transaction.rcptSaid ? replies.noRecipients : replies.sayRcpt
}

export function whyNotLogin({ secure, hello, user, transaction }: Standing, { auth }: Offer): Reply | undefined {
  if (auth === 'never') return replies.notOffered
  if (hello !== 'EHLO') return replies.sayEhlo
  if (auth === 'after_tls' && !secure) return replies.authNeedsTls
  if (user !== undefined) return replies.alreadyKnown
  return transaction && replies.outOfOrder
}

export function whyNotTls({ secure }: Standing, { startTls }: Offer): Reply | undefined {
  if (secure) return replies.alreadySecure
  return startTls ? undefined : replies.notOffered
}
