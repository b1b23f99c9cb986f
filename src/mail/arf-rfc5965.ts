// Abuse reports of mailbox providers (ARF: RFC 5965, 6430, 6591): the fields of message/feedback-report. Facts only.
import { limits } from '../config.ts'
import { linesOf } from './dsn-rfc3464.ts'

export interface FeedbackReport {
  /** Lower case: `abuse`, `fraud`, `not-spam`, `opt-out`, `auth-failure`, `virus`, `other`, or what a stranger wrote. */
  readonly type: string
  readonly userAgent?: string
  /** The first Original-Rcpt-To; often left out or made unreadable. */
  readonly recipient?: string
}

/** RFC 5965 3.1 and the registry: the others are no complaint about the mail. */
export const complaintTypes: readonly string[] = ['abuse', 'fraud']

export function readFeedbackReport(text: string): FeedbackReport | undefined {
  const fields = new Map<string, string>()
  for (const line of linesOf(text.slice(0, limits.reportTextBytesMax)).slice(0, limits.reportLinesMax)) {
    const match = /^([A-Za-z][A-Za-z0-9-]{1,40})[ \t]{0,4}:[ \t]{0,40}/.exec(line)
    const name = match?.[1]?.toLowerCase()
    if (match !== null && name !== undefined && !fields.has(name)) fields.set(name, line.slice(match[0].length).trim())
  }
  const type = /^[a-z][a-z0-9-]{0,40}/.exec((fields.get('feedback-type') ?? '').toLowerCase())?.[0]
  if (type === undefined) return undefined
  const userAgent = fields.get('user-agent')?.slice(0, 200)
  const recipient = /<?([^<>\s]{1,512})>?/.exec(fields.get('original-rcpt-to') ?? '')?.[1]
  return {
    type,
    ...(userAgent === undefined ? {} : { userAgent }),
    ...(recipient === undefined ? {} : { recipient }),
  }
}
