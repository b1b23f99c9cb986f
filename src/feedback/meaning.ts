// What a report means for its message: event, rank, bounce and suppression. Pure. The processing state is none of its business
// (specification 3.2), and nobody but the message's own recipient is ever suppressed (decisions C).
import { given } from '../base/given.ts'
import { limits } from '../config.ts'
import { classify, type BounceEvidence } from '../domain/bounce-rules.ts'
import { rankOf } from '../domain/delivery-status.ts'
import type { DeliveryEventType } from '../domain/message.ts'
import type { ProviderReport, ReportedReply } from '../domain/provider-report.ts'
import { isSimulator } from '../domain/simulator.ts'
import { parseAddress } from '../mail/address.ts'
import type { Reported, ReportRow } from '../store/reports.ts'

/** The rule that a complaint's suppression is stored with; bounces have theirs from the table. */
const complaintRule = 'complaint-report'

/** The row to record; undefined for what is no event, such as a mail that was handed on. */
export function rowOf(report: ProviderReport, message: Reported, maybeAnother = false): ReportRow | undefined {
  const said = meaningOf(report)
  if (said === undefined) return undefined
  // A list or an alias was expanded behind the recipient: what one of many says is not about the recipient.
  const type = maybeAnother && said.type === 'hard_bounce' ? 'soft_bounce' : said.type
  const suppress =
    (type === 'hard_bounce' || type === 'complaint') &&
    !isSimulator(message.recipient.slice(message.recipient.lastIndexOf('@') + 1))
      ? type
      : undefined
  const bounce = said.bounce && { ...said.bounce, final: said.final, source: report.source }
  const rule = type === 'complaint' ? complaintRule : said.bounce?.rule
  return given<ReportRow>({
    id: message.id,
    workspaceId: message.workspaceId,
    fingerprint: report.fingerprint,
    type,
    rank: rankOf({ type, final: said.final }),
    detail: detailOf(report),
    bounce,
    facts: {
      ...smtpOf(report),
      ...(bounce !== undefined && { bounce }),
      ...(suppress !== undefined && { suppressed: true }),
    },
    source: report.source,
    suppress,
    rule,
  })
}

interface Meaning {
  readonly type: DeliveryEventType
  /** Nobody tries again. */
  readonly final: boolean
  readonly bounce?: { readonly class: string; readonly rule: string; readonly permanent: boolean }
}

function meaningOf(report: ProviderReport): Meaning | undefined {
  if (report.kind === 'complaint') return { type: 'complaint', final: true }
  if (report.kind === 'delivered') return { type: 'delivered', final: true }
  const { class: name, rule, event, permanent } = classify(evidenceOf(report))
  if (event === undefined || event === 'delivered') return undefined
  return { type: event, final: report.kind === 'bounce', bounce: { class: name, rule, permanent } }
}

/** A report of a relay or of the receiving system about a refusal that we did not see. */
function evidenceOf({ kind, reply, source, recipient }: ProviderReport): BounceEvidence {
  return given<BounceEvidence>({
    stage: 'report',
    action: kind === 'delay' ? 'delayed' : 'failed',
    text: reply?.text ?? '',
    code: reply?.code,
    enhancedCode: reply?.enhancedCode,
    isStatus: source === 'dsn' || undefined,
    command: reply?.command,
    namesNobody: (source === 'bounce_mail' && recipient === undefined) || undefined,
  })
}

function detailOf({ detail, reply }: ProviderReport): string {
  return kept(detail ?? (reply === undefined ? '' : replyWords(reply)), limits.reportDetailCharactersMax)
}

/** Lines may stay, as in the replies that we hear ourselves. */
const controls = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]/g

/** A stranger's words as the database takes them, and as terminals and files may show them. */
function kept(words: string, charactersMax: number): string {
  return words.slice(0, charactersMax).toWellFormed().replace(controls, ' ')
}

function replyWords({ code, enhancedCode, text }: ReportedReply): string {
  const codes = [code, enhancedCode].filter((each) => each !== undefined && !text.includes(String(each)))
  return [...codes, text].join(' ').trim()
}

function smtpOf({ reply, reporter }: ProviderReport): object {
  const host = reply?.remoteMta ?? reporter
  if (reply === undefined || host === undefined) return {}
  const { enhancedCode } = reply
  const { code, words } = codeApart(reply)
  const isCode = enhancedCode !== undefined && /^[245]\.\d{1,3}\.\d{1,3}$/.test(enhancedCode)
  return {
    smtp: {
      host: kept(host, limits.addressOctetsMax),
      ...(code !== undefined && { code }),
      ...(isCode && { enhancedCode }),
      reply: kept(words, limits.reportDetailCharactersMax),
    },
  }
}

/** As in the replies that we hear ourselves: the code is a number of its own, and does not stand in the words as well. */
function codeApart({ code, text }: ReportedReply): { readonly code: number | undefined; readonly words: string } {
  const written = /^\s*([245][0-5]\d)(?:[ -]|$)/.exec(text)
  if (written === null || (code ?? Number(written[1])) !== Number(written[1])) return { code, words: text }
  return { code: Number(written[1]), words: text.replace(new RegExp(`^[ \\t]*${written[1]}(?:[ -]|$)`, 'gm'), '') }
}

/**
 * Of the reports in one mail, those about this message, each with whether it may be about another address behind the recipient's: a
 * message has one recipient, so more than one means that somebody expanded it. Where one names the recipient, it alone counts; also where another
 * address has failed that was made of it. A single one under another name of the domain is believed, unless it says that it came of an expansion, or
 * names it in words for people: providers call the recipient's mailbox by names of their own, and the token says whose it is (decisions C).
 */
export function ofMessage(
  reports: readonly ProviderReport[],
  message: Reported,
): { readonly report: ProviderReport; readonly maybeAnother: boolean }[] {
  const key = parseAddress(message.recipient)?.key
  const named = reports.filter(
    ({ recipient }) => recipient !== undefined && key !== undefined && parseAddress(recipient)?.key === key,
  )
  if (named.length > 0) return named.map((report) => ({ report, maybeAnother: report.another === true }))
  const isOther = (report: ProviderReport): boolean =>
    report.expanded === true || report.another === true || isNamedInProse(report) || isElsewhere(report, message)
  return reports.map((report) => ({ report, maybeAnother: reports.length > 1 || isOther(report) }))
}

/** An address in free text may be where a forwarding leads, or whom somebody who has left wants to be asked instead. */
function isNamedInProse({ source, recipient }: ProviderReport): boolean {
  return source === 'bounce_mail' && recipient !== undefined
}

/** At another domain: where mail was handed on to, which many do without a word of it. Host names below the recipient's domain are its own. */
function isElsewhere({ recipient = '' }: ProviderReport, message: Reported): boolean {
  const domain = parseAddress(recipient)?.domain
  const own = parseAddress(message.recipient)?.domain
  return domain !== undefined && own !== undefined && !`.${domain}`.endsWith(`.${own}`)
}
