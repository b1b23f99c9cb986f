// The checker of a fault campaign: compares what the callers were told, the database, the receiver's ledger and what the webhook's owner
// got, and names everything that the promise forbids. It shares no code with delivery but the table of moves.
import PostalMime from 'postal-mime'
import type { MessageStatus } from '../../src/domain/message.ts'
import { mayBecome } from '../../src/domain/moves.ts'
import { dkimVerdicts } from '../world/dkim-verdict.ts'
import type { DnsRecord, JourneyWorkspace } from '../world/journey-workspace.ts'
import type { LedgerLine } from '../world/receiver.ts'
import type { Receiver } from '../world/receiver-process.ts'
import type { Received, WebhookReceiver } from '../world/webhook-receiver.ts'
import type { Beside } from './beside/scene.ts'
import { isOverQuota, kinds, type Told } from './load.ts'
import type { Fault } from './nemesis.ts'

export interface Findings {
  readonly counts: Readonly<Record<string, number>>
  /** What the promise forbids, each in words. Empty when it was kept. */
  readonly breaches: readonly string[]
}

export interface Ledgers {
  readonly told: readonly Told[]
  readonly faults: readonly Fault[]
  readonly shop: JourneyWorkspace
  /** What went on beside the load. */
  readonly beside?: readonly Beside[]
  /** Recipients whose dot was on a wire that tore, or from which its reply did not come back. */
  readonly torn: ReadonlySet<string>
  /** The same of those to whom several mails went: whose was torn, the wire cannot say. */
  readonly everTorn: ReadonlySet<string>
  readonly receiver: Pick<Receiver, 'ledger'>
  readonly hook: Pick<WebhookReceiver, 'received'>
  readonly query: <Row extends object>(text: string) => Promise<Row[]>
}

interface Message {
  readonly id: string
  readonly workspaceId: string
  readonly recipient: string
  readonly status: MessageStatus
  readonly sequence: number
}
interface Event {
  readonly id: string
  readonly sequence: number
  readonly type: string
  readonly status: MessageStatus
  readonly reason: string | null
  readonly at: string
}

const dkimSample = 60
const dkimSampleOfKey = 5
const webhookTriesMax = 8

export async function checkLedgers(ledgers: Ledgers): Promise<Findings> {
  const { faults, shop, beside = [], torn, everTorn, receiver, hook, query } = ledgers
  const told = [...ledgers.told, ...beside.flatMap((each) => each.told ?? [])]
  const removed = new Set(beside.flatMap((each) => each.removed ?? []))
  const breaches: string[] = []
  const breach: Breach = (kind, what) => void breaches.push(`${kind}: ${what}`)
  const messages = await query<Message>(
    'select id, workspace_id "workspaceId", recipient, status, sequence from messages',
  )
  const events = groupBy(
    await query<Event>(
      `select message_id id, sequence, type, status, facts ->> 'reason' reason, occurred_at::text at from events order by message_id, sequence`,
    ),
    ({ id }) => id,
  )
  const ledger = await receiver.ledger()
  const lines = groupBy(ledger, ({ to }) => to[0] ?? '')
  const byRecipient = groupBy(messages, ({ recipient }) => recipient)
  const armedAt = (id: string) => faults.filter(({ armed }) => armed.has(id))

  // What the callers were told, against the database
  for (const { shop: theirs, recipient, ids, answer, words = '', way, asked } of told) {
    const rows = byRecipient.get(recipient) ?? []
    if (ids.size > 1) breach('two ids', `${recipient} (${way}) was told ${[...ids].join(', ')}`)
    if (removed.has(theirs.id)) continue
    // Who asks again over SMTP after the first mail has bounced hears of the suppression, at RCPT, before anybody can see that it is a repeat.
    const bounced =
      way === 'smtp' && asked > 1 && words.includes('recipient_suppressed') && rows[0]?.status === 'failed'
    const noRoom = theirs !== shop && answer === 'refused' && isOverQuota(words)
    if (noRoom && rows.length > 0) breach('refused', `${recipient} is over the quota, and accepted`)
    if (answer === 'refused' && !bounced && !noRoom) breach('refused', `${recipient}: ${words}`)
    if (rows.length > 1) breach('twice accepted', `${recipient} (${way}) is ${rows.length} messages`)
    if (answer === 'accepted' && !rows.some(({ id }) => ids.has(id))) breach('lost', `${recipient} was accepted`)
    if (answer === undefined && way !== 'rest without a key') breach('no answer', recipient)
  }
  const there = new Set(messages.map(({ id }) => id))
  for (const id of beside.flatMap(({ accepted = [] }) => accepted))
    if (!there.has(id)) breach('lost', `${id} was accepted`)
  const planned = new Set([
    ...told.map(({ recipient }) => recipient),
    ...beside.flatMap(({ recipients = [] }) => [...recipients]),
  ])
  const gone = new Set(told.flatMap(({ shop: { id }, recipient }) => (removed.has(id) ? [recipient] : [])))
  for (const { recipient } of messages) if (!planned.has(recipient)) breach('invented', recipient)
  for (const to of lines.keys()) if (!byRecipient.has(to) && !gone.has(to)) breach('invented', `${to} got mail`)
  for (const to of gone) checkDots(to, lines.get(to) ?? [], breach)
  const suppressed = new Set(beside.flatMap((each) => [...(each.suppressed ?? [])]))

  // Each message, against its history and the receiver's ledger
  const unknown: string[] = []
  for (const message of messages) {
    const { id, recipient, status } = message
    const history = events.get(id) ?? []
    const name = `${id} ${recipient} ${status}`
    for (const wrong of wrongHistory(message, history)) breach('history', `${name}: ${wrong}`)
    const theirs = lines.get(recipient) ?? []
    // What has come over HTTP is told apart by the Message-ID, which is ours.
    const isAlone = byRecipient.get(recipient)?.length === 1
    const wasTorn = (isAlone ? torn : everTorn).has(recipient)
    const its = isAlone ? theirs : theirs.filter(({ messageId }) => messageId.includes(id))
    const dots = checkDots(name, its, breach)
    const reason = history.findLast(({ type }) => type === `message.${status}`)?.reason ?? ''
    const wanted = kinds.find(({ behaviour }) => recipient.startsWith(`${behaviour}+`))?.becomes
    // The attempt that a fault interrupted is the last one, of the node that it struck; a 451 before it may be anybody's.
    const lastLine = its.at(-1)
    const wasArmed = armedAt(id).filter(
      ({ node }) => lastLine === undefined || lastLine.outcome === '451' || lastLine.helo === node,
    )
    if (status === 'sent') {
      if (dots.length !== 1 || dots[0]?.outcome !== '250') breach('lost', `${name} is not in the receiver's ledger`)
    } else if (status === 'failed') {
      if (dots.length > 0) breach('lost', `${name} was taken by the receiver`)
      const late = reason === 'eod_4xx_late' && wasArmed.length > 0
      if (reason === 'recipient_suppressed' && suppressed.has(recipient)) continue
      if (!/^(?:mail|rcpt|data|eod)_5xx$/.test(reason) && !late) breach('lost', `${name} without a 5yz (${reason})`)
    } else if (status === 'delivery_unknown') {
      unknown.push(id)
      const unanswered = its.some(({ outcome }) => outcome === 'none')
      if (!unanswered && wasArmed.length === 0 && !wasTorn)
        breach('unexplained', `${name} (${reason}) was not armed at any fault: ${storyOf(history, its, faults)}`)
    } else breach('lost', `${name} has not ended`)
    const mayDiffer = wasArmed.length > 0 || (status === 'delivery_unknown' && wasTorn)
    if (wanted !== status && !mayDiffer) breach('wrong end', `${name} (${reason}) should be ${wanted}`)
  }

  const records = beside.flatMap((each) => each.records ?? [])
  await checkContent(told, lines, records, breach)
  const ofShop = messages.filter(({ workspaceId }) => workspaceId === shop.id)
  const webhooks = checkWebhooks(
    new Map(ofShop.map(({ id }) => [id, events.get(id) ?? []])),
    await webhookLedger(query),
    hook.received,
    breach,
  )
  await checkCharges(query, breach)
  for (const story of beside) breaches.push(...(await story.breaches({ ledger, query })))

  const count = (...statuses: MessageStatus[]) => messages.filter(({ status }) => statuses.includes(status)).length
  const of = (prefix: string) => breaches.filter((each) => each.startsWith(`${prefix}:`)).length
  const byFault = new Set(unknown.filter((id) => armedAt(id).length > 0))
  return {
    breaches,
    counts: {
      submitted: told.length,
      repeated: told.filter(({ asked }) => asked > 1).length,
      'answer never known': told.filter(({ answer }) => answer === undefined).length,
      accepted: messages.length,
      sent: count('sent'),
      failed: count('failed'),
      unknown: unknown.length,
      'unknown by a fault': byFault.size,
      'unknown by a wire alone': messages.filter(
        ({ id, status, recipient }) => status === 'delivery_unknown' && !byFault.has(id) && torn.has(recipient),
      ).length,
      'armed at faults': faults.reduce((sum, { armed }) => sum + armed.size, 0),
      'faults that met armed messages': faults.filter(({ armed }) => armed.size > 0).length,
      'dots in the ledger': [...lines.values()].flat().length,
      ...webhooks,
      lost: of('lost') + of('no answer'),
      twice: of('twice') + of('twice accepted') + of('two ids'),
      unexplained: of('unexplained'),
    },
  }
}

type Breach = (kind: string, what: string) => void

/** Those that nobody refused: one at most. */
function checkDots(name: string, its: readonly LedgerLine[], breach: Breach): LedgerLine[] {
  const dots = its.filter(({ outcome }) => outcome === '250' || outcome === 'none')
  if (dots.length > 1) breach('twice', `${name} has ${dots.length} dots without a refusal`)
  if (new Set(its.map(({ sha256 }) => sha256)).size > 1) breach('content', `${name} differs between attempts`)
  return dots
}

/** Of every workspace: what it was charged is what was accepted of it. */
async function checkCharges(query: Ledgers['query'], breach: Breach): Promise<void> {
  const charges = await query<{ id: string; charged: number | null; accepted: number }>(
    `select w.id, (select max(u.month_count) from usage u where u.workspace_id = w.id) charged,
            (select count(*)::integer from messages m where m.workspace_id = w.id) accepted
       from workspaces w`,
  )
  for (const { id, charged, accepted } of charges)
    if ((charged ?? 0) !== accepted) breach('quota', `${charged} charged, ${accepted} accepted of workspace ${id}`)
}

/** What happened to one message, and what went wrong around its end. */
function storyOf(history: readonly Event[], its: readonly LedgerLine[], faults: readonly Fault[]): string {
  const endedAt = Date.parse(history.at(-1)?.at ?? '')
  return [
    ...history.map(({ type, reason, at }) => `${at} ${type} ${reason ?? ''}`),
    ...its.map(({ helo, outcome }) => `dot from ${helo}: ${outcome}`),
    ...faults.flatMap(({ what, node, at }) =>
      Math.abs(at - endedAt) < 20_000 ? [`${new Date(at).toISOString()} ${what} ${node ?? ''}`] : [],
    ),
  ].join('; ')
}

/** Sequence without a gap, and every step in the table of moves. */
function wrongHistory({ status, sequence }: Message, history: readonly Event[]): string[] {
  const wrong: string[] = []
  if (history.length !== sequence || history.some((event, at) => event.sequence !== at + 1))
    wrong.push(`${history.length} events for sequence ${sequence}`)
  const steps = history.filter((event) => event.type === `message.${event.status}`).map((event) => event.status)
  if (steps[0] !== 'queued') wrong.push(`it begins with ${steps[0]}`)
  for (const [at, to] of steps.entries()) {
    const from = steps[at - 1]
    if (from !== undefined && !mayBecome(from, to)) wrong.push(`${from} became ${to}`)
  }
  if (steps.at(-1) !== status) wrong.push(`it ends with ${steps.at(-1)}`)
  return wrong
}

async function checkContent(
  told: readonly Told[],
  lines: ReadonlyMap<string, readonly LedgerLine[]>,
  more: readonly DnsRecord[],
  breach: Breach,
): Promise<void> {
  const every = Math.max(1, Math.floor(told.length / dkimSample))
  const byKey = new Map<string, number>()
  for (const [n, { shop, recipient, text, subject, way }] of told.entries()) {
    const content = lines.get(recipient)?.at(-1)?.content
    if (content === undefined) continue
    if (way === 'smtp') {
      // Behind trace and signature stands what was handed in, octet for octet; one line end was added at its end, if at all.
      if (!content.endsWith(text)) breach('content', `${recipient} is not the mail that was handed in`)
    } else {
      const mail = await PostalMime.parse(Buffer.from(content, 'latin1'))
      if (mail.subject !== subject || mail.text?.trimEnd() !== text.trimEnd())
        breach('content', `${recipient} has another text`)
    }
    const signatures = [...content.matchAll(/^DKIM-Signature:((?:.|\r\n[ \t])*)/gim)].map(([, tags = '']) => tags)
    const name = signatures.flatMap((tags) => tags.match(/\b[ds]=[^;\s]+/g) ?? []).join()
    const before = byKey.get(name) ?? 0
    byKey.set(name, before + 1)
    // And the first ones of each key, which may have been there for a moment.
    if (n % every !== 0 && before >= dkimSampleOfKey) continue
    const verdicts = await dkimVerdicts(content, [...shop.records, ...more])
    if (!verdicts.some((verdict) => verdict.startsWith('pass'))) breach('dkim', `${recipient}: ${verdicts.join()}`)
  }
}

interface WebhookLedger {
  /** What is still to be posted. */
  readonly onLadder: ReadonlySet<string>
  /** How every try ended. What was tried more than once lets later events of the message go before it. */
  readonly tries: ReadonlyMap<string, readonly string[]>
}

async function webhookLedger(query: Ledgers['query']): Promise<WebhookLedger> {
  type Row = { id: string; sequence: number }
  const nameOf = ({ id, sequence }: Row) => `${id} ${sequence}`
  const ended = await query<Row & { how: string }>(
    `select message_id id, sequence, concat_ws(' ', ended_at::text, 'round', round, 'try', attempt, delivered, trouble, status, duration_ms || ' ms') how
       from webhook_attempts order by ended_at`,
  )
  const tries = groupBy(ended, nameOf)
  return {
    onLadder: new Set((await query<Row>('select message_id id, sequence from webhook_queue')).map(nameOf)),
    tries: new Map([...tries].map(([name, its]) => [name, its.map(({ how }) => how)])),
  }
}

/** Every event came, at least once, at most as often as the ladder has rounds, always the same bytes, signed, and in order the first time. */
function checkWebhooks(
  events: ReadonlyMap<string, readonly Event[]>,
  { onLadder, tries }: WebhookLedger,
  received: readonly Received[],
  breach: Breach,
): Record<string, number> {
  const came = groupBy(received, ({ event }) => `${String(event.data.messageId)} ${event.data.sequence}`)
  let all = 0
  for (const { id, sequence, type } of [...events.values()].flat()) {
    all++
    const name = `${id} ${sequence}`
    const its = came.get(name) ?? []
    if (its.length === 0 && !onLadder.has(name)) breach('webhook', `${name} ${type} never came`)
    if (its.length > webhookTriesMax) breach('webhook', `${name} came ${its.length} times`)
    if (its.some(({ event }) => event.type !== type)) breach('webhook', `${name} is not ${type}`)
    if (its.some(({ raw }) => !raw.equals(its[0]?.raw ?? raw))) breach('webhook', `${name} changed`)
    if (its.some(({ proved }) => proved.current === false)) breach('webhook', `${name} is not signed`)
  }
  const storyOfWebhooks = (id: string, sequences: readonly number[]): string =>
    sequences
      .flatMap((sequence) => {
        const name = `${id} ${sequence}`
        const arrivals = (came.get(name) ?? []).map(
          ({ at, connection }) =>
            `came ${new Date(performance.timeOrigin + at).toISOString()} over connection ${connection}`,
        )
        return [`${sequence}`, ...(tries.get(name) ?? []), ...arrivals]
      })
      .join('; ')
  const highest = new Map<string, number>()
  for (const { event } of received) {
    const id = String(event.data.messageId)
    const sequence = Number(event.data.sequence)
    const before = highest.get(id) ?? 0
    for (let missing = before + 1; missing < sequence; missing++)
      if ((tries.get(`${id} ${missing}`)?.length ?? 0) < 2)
        breach('webhook', `${id} ${sequence} came before ${missing}: ${storyOfWebhooks(id, [missing, sequence])}`)
    highest.set(id, Math.max(before, sequence))
  }
  return { events: all, 'webhook requests': received.length, 'webhook events on their ladder': onLadder.size }
}

function groupBy<T>(these: readonly T[], keyOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const one of these) {
    const key = keyOf(one)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [one])
    else group.push(one)
  }
  return groups
}
