// What a report by mail means, recipient by recipient: the facts of mail/report.ts go through the rules. `posthorn classify --report`
// prints it, and the bounce mailbox records by it.
import { complaintTypes } from '../mail/arf-rfc5965.ts'
import type { Report, ReportKind } from '../mail/report.ts'
import { classify, type BounceEvidence, type BounceVerdict } from './bounce-rules.ts'
import type { DeliveryEventType } from './message.ts'

export interface ReportVerdict {
  readonly kind: ReportKind
  readonly recipient?: string
  readonly action?: string
  readonly status?: string
  readonly class: BounceVerdict['class'] | 'complaint' | 'no_complaint'
  readonly event: DeliveryEventType | undefined
  readonly suppress: boolean
  readonly permanent: boolean
  readonly rule: string
}

/** Empty for mail that is no report about delivery or about a complaint. */
export function verdictsOf(report: Report): readonly ReportVerdict[] {
  if (report.feedback !== undefined) return [complaintVerdict(report, report.feedback)]
  return report.recipients.map((reported) => {
    const { recipient, action, status } = reported
    return {
      kind: report.kind,
      ...(recipient === undefined ? {} : { recipient }),
      action,
      ...(status === undefined ? {} : { status }),
      ...classify(evidenceOf(report.kind, reported)),
    }
  })
}

/** A recipient's part of a report, as the rules take it. */
function evidenceOf(kind: ReportKind, reported: Report['recipients'][number]): BounceEvidence {
  return {
    stage: 'report',
    action: reported.action,
    enhancedCode: reported.status,
    ...(kind === 'dsn' && { isStatus: true }),
    text: reported.text,
    command: reported.command,
    ...(kind === 'bounce_text' && reported.recipient === undefined && { namesNobody: true }),
  }
}

function complaintVerdict({ kind }: Report, { type, recipient }: NonNullable<Report['feedback']>): ReportVerdict {
  const complains = complaintTypes.includes(type)
  return {
    kind,
    ...(recipient === undefined ? {} : { recipient }),
    action: type,
    class: complains ? 'complaint' : 'no_complaint',
    event: complains ? 'complaint' : undefined,
    suppress: complains,
    permanent: false,
    rule: complains ? 'complaint-report' : 'report-without-complaint',
  }
}
