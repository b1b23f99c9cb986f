// The door for what receiving providers say: by mail to a return path or to the complaint address, or through a relay provider's feed.
// A report is believed for the message that its signed token proves, or that an authenticated feed names on its own route, and only
// where that message was armed ever (decisions C). Everything else is kept as unmatched feedback, without effect. Nothing is answered.
import { limits } from '../config.ts'
import type { Log } from '../base/log.ts'
import type { ProviderReport } from '../domain/provider-report.ts'
import { readReport, type Report } from '../mail/report.ts'
import { isGenuine, readToken, returnPathName } from '../mail/return-path.ts'
import {
  findRelayed,
  findReported,
  isReturnPathHost,
  readRemoved,
  readRoutesTaken,
  type RelayRoute,
  type Reported,
  type ReportAnswer,
} from '../store/reports.ts'
import type { ReportRow } from '../store/reports.ts'
import {
  beforeAllLate,
  findLateRelayed,
  forgetUnmatched,
  keepUnmatched,
  unmatchedReasons,
  type NewUnmatched,
  type UnmatchedReason,
} from '../store/unmatched.ts'
import type { Db } from '../store/database.ts'
import { noAnswerWhileHeld } from '../store/held-rows.ts'
import type { ReturnPathKeys } from '../store/return-path-keys.ts'
import { mailReports } from './mail-reports.ts'
import { ofMessage, rowOf } from './meaning.ts'
import type { Reporter, ReporterCheck } from './reporter.ts'

export { makeReporterCheck } from './reporter.ts'
export { findUnmatchedFeedback, pageUnmatchedFeedback, rotateReturnPath } from './operators.ts'
export type { Unmatched } from '../store/unmatched.ts'

export interface FeedbackTools {
  readonly db: Db
  readonly keys: ReturnPathKeys
  readonly record: (row: ReportRow) => Promise<ReportAnswer>
  readonly provenReporter: ReporterCheck
  readonly hostname: string
  readonly log: Log
}

/** Who mail of ours can be for. */
export type Addressee =
  | { readonly kind: 'message'; readonly address: string; readonly message: Reported }
  /** Where feedback loops are registered; and postmaster, whom everybody may write to: it is read alike. */
  | { readonly kind: 'complaints'; readonly address: string }

export interface ReceivedMail {
  /** '' for the null sender. */
  readonly sender: string
  readonly addressees: readonly Addressee[]
  readonly content: Buffer
}

/** A mail as it was read, once for all whom it is for, and one of them. */
interface ReadMail extends Omit<ReceivedMail, 'addressees'> {
  readonly addressee: Addressee
  readonly report: Report
}

/** A relay provider's feed whose word was authenticated. It speaks for its own route alone. */
export interface Feed {
  /** `ses`, `postmark` */
  readonly name: string
  readonly route: RelayRoute
}

export type FeedAnswer = ReportAnswer | UnmatchedReason | 'no_event'

export interface Feedback {
  /** Undefined for every address but return paths that we wrote, the complaint address and postmaster. */
  addresseeOf(address: string): Promise<Addressee | undefined>
  /** Of an address that is nobody's: we wrote it, for a message of a workspace that was removed meanwhile. Whoever writes there guesses nothing. */
  isOfRemoved(address: string): Promise<boolean>
  /**
   * Resolves to `kept` when what the mail reports is committed for all whom it is for, to `later` where the sender is to come again. Rejects when that is not known:
   * the same again does no harm.
   */
  receive(mail: ReceivedMail): Promise<'kept' | 'later'>
  /** The same for reports of a feed, one answer each. */
  receiveFed(feed: Feed, reports: readonly ProviderReport[]): Promise<FeedAnswer[]>
  /** Records what feeds said about messages before it was written down what their relays call them: an event may overtake our own record. */
  matchLate(): Promise<void>
}

const complaintsLocal = 'complaints'
/** RFC 5321 4.5.1: at every name that mail comes in for, and without one. Hosts that verify a sender may ask for it. */
const postmasterLocal = 'postmaster'

export function makeFeedback(tools: FeedbackTools): Feedback {
  const { db, log } = tools
  const keep = boundedKeeper(db, log)
  /** Each look goes on behind the last: what finds no message for good would hold up all that came later. */
  let lookedUpTo = beforeAllLate

  const messageOfToken = async (text: string): Promise<Reported | undefined> => {
    const token = readToken(text)
    if (token === undefined) return undefined
    const key = await tools.keys.named(token.keyId)
    if (key === undefined) return undefined
    const message = await findReported(db, token.messageId)
    return message !== undefined && isGenuine(token, key, message.workspaceId) ? message : undefined
  }

  const wasRemoved = async (text: string): Promise<boolean> => {
    const token = readToken(text)
    const key = token && (await tools.keys.named(token.keyId))
    if (token === undefined || key === undefined) return false
    return (await readRemoved(db.rows)).some((workspace) => isGenuine(token, key, workspace))
  }
  /** Nothing of a removed workspace is kept, also not what is said about its mail. */
  const isAboutRemoved = async ({ evidence }: ProviderReport): Promise<boolean> => {
    for (const each of evidence) if (each.by === 'token' && (await wasRemoved(each.token))) return true
    return false
  }

  const addresseeOf = async (address: string): Promise<Addressee | undefined> => {
    if (address.toLowerCase() === postmasterLocal) return { kind: 'complaints', address }
    const at = address.lastIndexOf('@')
    const local = address.slice(0, at)
    const host = address.slice(at + 1).toLowerCase()
    if (local.toLowerCase() === postmasterLocal)
      return host === tools.hostname || (await isReturnPathHost(db, host)) ? { kind: 'complaints', address } : undefined
    if (local.split('+', 1)[0]?.toLowerCase() === complaintsLocal)
      return host === tools.hostname ? { kind: 'complaints', address } : undefined
    const message = await messageOfToken(local)
    if (message === undefined) return undefined
    // A token is good at the hosts of its own workspace only.
    const hosts = [tools.hostname, message.acceptedBy, ...message.domains.map(returnPathName)]
    if (!hosts.includes(host)) return undefined
    return { kind: 'message', address, message }
  }

  /** Writes one row, and the log's line. */
  const record = async (row: ReportRow, { recipient }: Reported, more: { readonly route?: string }) => {
    const answer = await tools.record(row)
    const { id: messageId, workspaceId, type, source, bounce } = row
    log.reported({
      messageId,
      workspaceId,
      domain: recipient.slice(recipient.lastIndexOf('@') + 1),
      type,
      bounce: bounce?.class,
      source,
      outcome: answer,
      suppressed: row.suppress !== undefined,
      ...more,
    })
    return answer
  }

  /** Reports that came to a message's own return path: the address is the proof. */
  const receiveForMessage = async (mail: ReadMail, message: Reported): Promise<'kept'> => {
    const reports = mailReports(mail.report, message.recipient).slice(0, limits.reportsPerMailMax)
    // A bounce has the null sender (RFC 3464 2, RFC 5321 4.5.5), so that nobody answers it. A complaint may have any.
    const believed = mail.sender === '' ? reports : reports.filter(({ kind }) => kind === 'complaint')
    if (believed.length === 0)
      return keep(unmatchedMail(mail, reports.length === 0 ? 'no_report' : 'sender_not_null', about(message)))
    const rows = ofMessage(believed, message).flatMap(
      ({ report, maybeAnother }) => rowOf(report, message, maybeAnother) ?? [],
    )
    const answers = await Promise.all(rows.map((row) => record(row, message, {})))
    if (answers.includes('not_armed')) await keep(unmatchedMail(mail, 'not_armed', about(message)))
    return 'kept'
  }

  /** A feedback loop's report: the token is in the mail that it returns, and the reporter has to prove who it is. */
  const receiveComplaint = async (mail: ReadMail): Promise<'kept' | 'later'> => {
    const reports = mailReports(mail.report).slice(0, limits.reportsPerMailMax)
    const complaints = reports.filter(({ kind }) => kind === 'complaint')
    if (complaints.length === 0)
      return keep(unmatchedMail(mail, reports.length === 0 ? 'no_report' : 'not_a_complaint', {}))
    let reporter: Promise<Reporter> | undefined
    for (const report of complaints) {
      const message = await firstMessage(report, async (evidence) =>
        evidence.by === 'token' ? messageOfToken(evidence.token) : undefined,
      )
      if (message === undefined) {
        if (!(await isAboutRemoved(report))) await keep(unmatchedMail(mail, 'unknown_message', {}))
        continue
      }
      // Only for a message of ours are strangers' DNS servers asked.
      const proven = await (reporter ??= tools.provenReporter(mail.content))
      if (proven === 'later') return 'later'
      const row = rowOf(report, message)
      if (proven === 'unproven' || row === undefined)
        await keep(unmatchedMail(mail, 'reporter_not_proven', about(message)))
      else if ((await record(row, message, { route: proven.proven })) === 'not_armed')
        await keep(unmatchedMail(mail, 'not_armed', about(message)))
    }
    return 'kept'
  }

  /** Whether an attempt has taken the feed's route. Where none says which it took, the workspace's present route stands for it. */
  const wentOver = async (route: RelayRoute, message: Reported): Promise<boolean> => {
    if (route !== 'installation' && route !== message.workspaceId) return false
    const own = route === 'installation' ? 'installation' : 'workspace'
    const taken = await readRoutesTaken(db, message)
    return taken.length > 0 ? taken.includes(own) : message.hasOwnRoute === (own === 'workspace')
  }

  const receiveOneFed = async (
    feed: Feed,
    report: ProviderReport,
    keepOne: (row: NewUnmatched) => Promise<unknown> = keep,
  ): Promise<FeedAnswer> => {
    const unmatched = async (reason: UnmatchedReason, facts: object): Promise<UnmatchedReason> => {
      const { evidence, ...said } = report
      const content = Buffer.from(JSON.stringify(report))
      const providerMessageIds = evidence.flatMap((each) => ('providerMessageId' in each ? each.providerMessageId : []))
      const named = { route: feed.route, providerMessageIds }
      await keepOne({
        reason,
        source: feed.name,
        sender: '',
        addressee: '',
        facts: { ...facts, ...said, ...named },
        content,
      })
      return reason
    }
    const elsewhere: Reported[] = []
    const message = await firstMessage(report, async (evidence) => {
      // The relay's id is looked up among those of this route: it proves the route, too.
      if (evidence.by === 'providerMessageId') return findRelayed(db, feed.route, evidence.providerMessageId)
      const named = await messageOfToken(evidence.token)
      if (named === undefined || (await wentOver(feed.route, named))) return named
      elsewhere.push(named)
      return undefined
    })
    const [other] = elsewhere
    if (message === undefined && other !== undefined) return unmatched('other_route', about(other))
    if (message === undefined)
      return (await isAboutRemoved(report))
        ? 'unknown_message'
        : unmatched('unknown_message', feed.route === 'installation' ? {} : { workspaceId: feed.route })
    const row = rowOf(report, message)
    if (row === undefined) return 'no_event'
    const answer = await record(row, message, { route: feed.name })
    return answer === 'not_armed' ? unmatched('not_armed', about(message)) : answer
  }

  return {
    addresseeOf,
    isOfRemoved: (address) => wasRemoved(address.slice(0, address.lastIndexOf('@'))),
    receive: async ({ sender, addressees, content }) => {
      const report = readReport(content)
      for (const addressee of distinct(addressees)) {
        const mail = { sender, addressee, content, report }
        const answer =
          addressee.kind === 'message' ? receiveForMessage(mail, addressee.message) : receiveComplaint(mail)
        if ((await answer) === 'later') return 'later'
      }
      return 'kept'
    },
    receiveFed: async (feed, reports) => {
      const answers: FeedAnswer[] = []
      for (let at = 0; at < reports.length; at += limits.reportsPerStatementMax) {
        const some = reports.slice(at, at + limits.reportsPerStatementMax)
        answers.push(...(await Promise.all(some.map((report) => receiveOneFed(feed, report)))))
      }
      return answers
    },
    matchLate: async () => {
      const most = limits.reportsPerStatementMax
      const found = await findLateRelayed(db, lookedUpTo, most)
      lookedUpTo = found[most - 1] ?? beforeAllLate
      for (const { id, source: name, route, content } of found) {
        const report = reportKept(content)
        if (report === undefined) continue
        const answer = await receiveOneFed({ name, route }, report, () => Promise.resolve()).catch(noAnswerWhileHeld)
        if (answer !== undefined && !unmatchedReasons.some((reason) => reason === answer)) await forgetUnmatched(db, id)
      }
    },
  }
}

/** As it was kept by us; undefined where it was too long to be kept whole. */
function reportKept(content: Buffer): ProviderReport | undefined {
  if (content.length >= limits.unmatchedContentBytesMax) return undefined
  const { occurredAt, ...report } = JSON.parse(content.toString()) as ProviderReport & { readonly occurredAt?: string }
  return { ...report, ...(occurredAt !== undefined && { occurredAt: new Date(occurredAt) }) }
}

/** The complaint address is one, whatever stands behind its plus; and a message's return path, in whatever case. */
function distinct(addressees: readonly Addressee[]): Iterable<Addressee> {
  const byWhat = new Map<string, Addressee>()
  for (const addressee of addressees) {
    const what = addressee.kind === 'message' ? addressee.message.id : addressee.kind
    if (!byWhat.has(what)) byWhat.set(what, addressee)
  }
  return byWhat.values()
}

/** The first piece of evidence that finds a message. */
async function firstMessage(
  report: ProviderReport,
  find: (evidence: ProviderReport['evidence'][number]) => Promise<Reported | undefined>,
): Promise<Reported | undefined> {
  for (const evidence of report.evidence) {
    const message = await find(evidence)
    if (message !== undefined) return message
  }
  return undefined
}

/** Whose it was is noted, too: by then its message may be gone, and a removal of the workspace takes this out. */
const about = ({ id, workspaceId }: Reported) => ({ messageId: id, workspaceId })

function unmatchedMail({ sender, addressee, content }: ReadMail, reason: UnmatchedReason, facts: object): NewUnmatched {
  return { reason, source: 'mail', sender, addressee: addressee.address, facts, content }
}

/** Keeps unmatched feedback, so much a minute: the complaint address is open to everybody. */
function boundedKeeper(db: Db, log: Log): (row: NewUnmatched) => Promise<'kept'> {
  let minuteEndsAt = 0
  let kept = 0
  return async (row) => {
    const now = performance.now()
    if (now >= minuteEndsAt) {
      minuteEndsAt = now + 60_000
      kept = 0
    }
    const full = ++kept > limits.unmatchedPerMinuteMax
    log.reported({
      source: row.source,
      outcome: 'unmatched',
      reason: row.reason,
      bytes: row.content.length,
      kept: !full,
    })
    if (!full) await keepUnmatched(db, row)
    return 'kept'
  }
}
