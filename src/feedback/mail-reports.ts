// From a mail to the reports in it: what mail/report.ts read, as the facts that are recorded. A mail that is no report gives none:
// automatic replies, receipts (RFC 8098), complaints that are none (RFC 5965: `not-spam`, `auth-failure` and the like).
import { fingerprintOf, type MessageEvidence, type ProviderReport } from '../domain/provider-report.ts'
import { complaintTypes } from '../mail/arf-rfc5965.ts'
import { returnedToken, type Report, type ReportedRecipient } from '../mail/report.ts'

const kindOf = {
  failed: 'bounce',
  delayed: 'delay',
  delivered: 'delivered',
  relayed: undefined,
  expanded: undefined,
} as const

/** `recipient` of the message that it came for, where that is known. Never throws. */
export function mailReports(report: Report, recipient?: string): ProviderReport[] {
  // What the recipient writes is an answer, whatever its words.
  if (report.author !== undefined && report.author === recipient?.toLowerCase()) return []
  if (report.kind === 'arf') return complaintOf(report)
  return report.recipients.flatMap((recipient) => deliveryOf(report, recipient))
}

function complaintOf(report: Report): ProviderReport[] {
  const { feedback, reporter } = report
  if (feedback === undefined || !complaintTypes.includes(feedback.type)) return []
  return [
    {
      kind: 'complaint',
      evidence: evidenceIn(report),
      ...(feedback.recipient !== undefined && { recipient: feedback.recipient }),
      detail: `The recipient complained: ${feedback.type}${reporter === undefined ? '' : ` (${reporter})`}`,
      source: 'arf',
      ...(reporter !== undefined && { reporter }),
      fingerprint: fingerprintOf('complaint', feedback.type),
    },
  ]
}

function deliveryOf(report: Report, said: ReportedRecipient): ProviderReport[] {
  const kind = kindOf[said.action]
  if (kind === undefined) return []
  const { reporter } = report
  return [
    {
      kind,
      evidence: evidenceIn(report),
      ...(said.recipient !== undefined && { recipient: said.recipient }),
      ...(report.expanded && { expanded: true }),
      ...(said.another && { another: true }),
      reply: {
        action: said.action,
        text: said.text,
        ...(said.status !== undefined && { enhancedCode: said.status }),
        ...(said.command !== undefined && { command: said.command }),
        ...(said.remoteMta !== undefined && { remoteMta: said.remoteMta }),
      },
      detail: detailOf(said),
      source: report.kind === 'bounce_text' ? 'bounce_mail' : 'dsn',
      ...(reporter !== undefined && { reporter }),
      fingerprint: fingerprintOf(kind, said.recipient?.toLowerCase(), said.status, said.text),
    },
  ]
}

/** The signed header of the mail that is returned, then the envelope id that we gave; or what a notification tells of them. */
function evidenceIn(report: Report): MessageEvidence[] {
  const tokens = [returnedToken(report)?.trim(), report.envelopeId?.trim(), ...(report.tokens ?? [])]
  return tokens.flatMap((token) => (token === undefined || token === '' ? [] : [{ by: 'token', token }]))
}

function detailOf({ text, status, action }: ReportedRecipient): string {
  const words = text.trim() === '' ? action : text.trim()
  return status === undefined || words.includes(status) ? words : `${status} ${words}`
}
