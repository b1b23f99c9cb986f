// What an owner does with the endpoint of a workspace: set, switch, rotate the secret, test, read the log, send again. Every mistake is a
// refusal with its reason (decisions G). A change and its row in the audit log are one transaction; `actor` is who did it.
import { given } from '../base/given.ts'
import { limits } from '../config.ts'
import { sealedAs, type Vault } from '../base/secret.ts'
import { webhookApiVersion, webhookEventTypeNames } from '../contract/words.ts'
import { eventId, messagesOfEvent } from '../domain/event.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { isRefusal, refuse, type Refusal } from '../domain/refusal.ts'
import { mayNoLonger } from '../domain/actor.ts'
import type { Page } from '../domain/page.ts'
import {
  webhookStateOf,
  type WebhookEndpoint,
  type WebhookEndpointWithSecret,
  type WebhookEventDetail,
  type WebhookLogEntry,
  type WebhookLogFilter,
} from '../domain/webhook.ts'
import { holdActor } from '../store/actors.ts'
import { writeAudit } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { greatestId } from '../store/message-id.ts'
import {
  changeEndpoint,
  disableEndpoint,
  enableEndpoint,
  findEndpoint,
  insertEndpoint,
  prepareSecret,
  promoteSecret,
  type EndpointRow,
} from '../store/webhook-endpoints.ts'
import { queueTest, replayEvent, replayRange, type ReplayRange } from '../store/webhook-replay.ts'
import {
  readEventsBetween,
  readWebhookAttempts,
  readWebhookLog,
  searchWebhookLog,
  type LogRow,
} from '../store/views/webhook-events.ts'
import { webhookEventOf } from './event-body.ts'
import type { Targets } from './public-address.ts'
import { makeWebhookSecret } from './signature.ts'

export interface WebhookDeskTools {
  readonly db: Db
  readonly vault: Vault
  readonly targets: Targets
  readonly timeScale: number
}

export interface EndpointWish {
  readonly url: string
  /** Null: all. Left out: as it is; of a new endpoint, all. */
  readonly events?: readonly string[] | null
  /** Of the endpoint that whoever wishes has seen, 0 where there was none. Left out: whatever it is by now. */
  readonly version?: number
}

const none = refuse('not_found', 'The workspace has no webhook endpoint; set one first.')
const noEvent = refuse('not_found', 'No event with this id exists in your workspace.')
const disabled = refuse('conflict', 'The webhook endpoint is disabled; enable it first.')
const unprepared = refuse('conflict', 'No new secret is prepared; rotate first.')
const another = refuse(
  'conflict',
  'The webhook endpoint was changed since you read it, and nothing was done now: look at it, and say again what you want.',
)

export type WebhookDesk = ReturnType<typeof makeWebhookDesk>

export function makeWebhookDesk({ db, vault, targets, timeScale }: WebhookDeskTools) {
  const secretFor = (workspace: WorkspaceId) => {
    const secret = makeWebhookSecret()
    return { secret, sealed: vault.seal(secret, sealedAs.webhookSecret(workspace)) }
  }
  const active = async (workspace: WorkspaceId): Promise<EndpointRow | Refusal> => {
    const row = await findEndpoint(db, workspace)
    if (row === undefined) return none
    return row.state === 'active' ? row : disabled
  }
  const presented = (row: EndpointRow | Refusal | undefined): WebhookEndpoint | Refusal =>
    row === undefined ? none : isRefusal(row) ? row : present(row)
  /** Why no row was changed: there is none, it is not any more what whoever asked has seen, or else what is said. */
  const whyNot = async (workspace: WorkspaceId, version: number | undefined, otherwise: Refusal): Promise<Refusal> => {
    const row = await findEndpoint(db, workspace)
    if (row === undefined) return none
    return version !== undefined && row.version !== version ? another : otherwise
  }
  /** Does the work and writes down who did it, where there is an endpoint to do it to. Not for who may no longer: `set` asks name servers in between. */
  const audited = <Row extends EndpointRow>(
    workspaceId: WorkspaceId,
    actor: string,
    action: string,
    work: (tx: Db) => Promise<Row | undefined>,
    facts?: (row: Row) => object,
  ): Promise<Row | Refusal | undefined> =>
    db.transaction(async (tx) => {
      const refused = mayNoLonger(actor, await holdActor(tx, workspaceId, actor), 'webhooks.write')
      if (refused !== undefined) return refused
      const row = await work(tx)
      // The host alone: paths and parameters hold secrets of their receivers, and the log is kept for a year.
      const told = row && { target: new URL(row.url).host, ...(facts && { facts: facts(row) }) }
      if (told !== undefined) await writeAudit(tx, { workspaceId, actor, action, ...told })
      return row
    })

  const find = async (workspace: WorkspaceId, id: string): Promise<LogRow | undefined> => {
    if (!isEventId(id)) return undefined
    const rows = await readEventsBetween(db, workspace, messagesOfEvent(id))
    return rows.find((row) => eventId(row.message_id as MessageId, row.sequence) === id)
  }

  const pageOf = async (workspace: WorkspaceId, before: Place, limit: number) => {
    const rows = await readWebhookLog(db, workspace, before, limit)
    const last = rows.length === limit ? rows.at(-1) : undefined
    return { rows, ...(last !== undefined && { end: { messageId: last.message_id, sequence: last.sequence } }) }
  }

  /** The host alone, as above. */
  const note = (tx: Db, workspaceId: WorkspaceId, actor: string, action: string, row: EndpointRow, facts: object) =>
    writeAudit(tx, { workspaceId, actor, action, target: new URL(row.url).host, facts })

  return {
    show: async (workspace: WorkspaceId): Promise<WebhookEndpoint | Refusal> =>
      presented(await findEndpoint(db, workspace)),

    /** A new endpoint gets a secret; a new URL keeps it. */
    set: async (
      workspace: WorkspaceId,
      wish: EndpointWish,
      actor: string,
    ): Promise<WebhookEndpointWithSecret | Refusal> => {
      const url = await allowedUrl(wish.url)
      if (isRefusal(url)) return url
      const types = wish.events === undefined ? undefined : parseTypes(wish.events)
      if (isRefusal(types)) return types
      const { secret, sealed } = secretFor(workspace)
      const filter = (row: EndpointRow) => ({ events: row.types ?? 'all' })
      const made = await audited(
        workspace,
        actor,
        'webhook.created',
        (tx) =>
          insertEndpoint(tx, workspace, { url, types: types ?? null, apiVersion: webhookApiVersion, secret: sealed }),
        filter,
      )
      if (isRefusal(made)) return made
      if (made !== undefined) return { ...present(made), secret }
      const changes = { url, ...(types !== undefined && { types }), version: wish.version }
      const changed = await audited(
        workspace,
        actor,
        'webhook.changed',
        (tx) => changeEndpoint(tx, workspace, changes),
        // That there is another path, and not which.
        (row) => ({ ...(row.moved && { url: 'changed' }), ...filter(row) }),
      )
      return presented(changed ?? (await whyNot(workspace, wish.version, another)))
    },
    enable: async (workspace: WorkspaceId, actor: string) =>
      presented(await audited(workspace, actor, 'webhook.enabled', (tx) => enableEndpoint(tx, workspace))),
    disable: async (workspace: WorkspaceId, actor: string) =>
      presented(await audited(workspace, actor, 'webhook.disabled', (tx) => disableEndpoint(tx, workspace))),

    /** The first step: a new secret, which signs beside the old one. Asked again, another one takes its place. */
    rotate: async (
      workspace: WorkspaceId,
      actor: string,
      version?: number,
    ): Promise<WebhookEndpointWithSecret | Refusal> => {
      const { secret, sealed } = secretFor(workspace)
      const row = await audited(workspace, actor, 'webhook.secret_prepared', (tx) =>
        prepareSecret(tx, workspace, sealed, version),
      )
      const shown = presented(row ?? (await whyNot(workspace, version, another)))
      return isRefusal(shown) ? shown : { ...shown, secret }
    },
    /** The second step: the new secret signs, and the old one beside it for 24 hours. */
    promote: async (workspace: WorkspaceId, actor: string, version?: number): Promise<WebhookEndpoint | Refusal> => {
      const row = await audited(workspace, actor, 'webhook.secret_promoted', (tx) =>
        promoteSecret(tx, workspace, limits.webhookPreviousSecretMs / timeScale, version),
      )
      return presented(row ?? (await whyNot(workspace, version, unprepared)))
    },

    test: async (workspace: WorkspaceId, actor: string): Promise<{ readonly eventId: string } | Refusal> => {
      const row = await active(workspace)
      if (isRefusal(row)) return row
      const event = await db.transaction(async (tx) => {
        const id = await queueTest(tx, workspace, 'This is a test of your webhook endpoint.')
        if (id === undefined) return undefined
        await note(tx, workspace, actor, 'webhook.tested', row, { event: eventId(id, 1) })
        return eventId(id, 1)
      })
      if (event !== undefined) return { eventId: event }
      // It may have been disabled meanwhile: whoever waits a second then is told the same again.
      const still = await active(workspace)
      if (isRefusal(still)) return still
      return refuse('too_many_attempts', 'A test was sent a moment ago; wait a second.', { retryAfterSeconds: 1 })
    },

    /** The latest message's events first. A page of a search may be empty and not the last. */
    log: async (
      workspace: WorkspaceId,
      after: string | undefined,
      limit: number = limits.eventsPage,
      filter: WebhookLogFilter = {},
    ): Promise<Page<WebhookLogEntry> | Refusal> => {
      const before = after === undefined ? end : parsePlace(after)
      if (before === undefined)
        return refuse('invalid_request', '"after" must be the "next" of an earlier page, as it was.', {
          field: 'after',
        })
      const page =
        Object.keys(filter).length > 0
          ? await searchWebhookLog(db, workspace, filter, before, {
              most: limit,
              scanned: Math.max(limit, limits.webhookLogScannedMax),
            })
          : await pageOf(workspace, before, limit)
      return { items: page.rows.map(logEntry), ...(page.end !== undefined && { next: writePlace(page.end) }) }
    },

    event: async (workspace: WorkspaceId, id: string): Promise<WebhookEventDetail | Refusal> => {
      const row = await find(workspace, id)
      if (row === undefined) return noEvent
      const place = { messageId: row.message_id, sequence: row.sequence }
      const [attempts, endpoint] = await Promise.all([
        readWebhookAttempts(db, workspace, place),
        findEndpoint(db, workspace),
      ])
      return {
        ...logEntry(row),
        body: webhookEventOf(workspace, row, endpoint?.api_version ?? webhookApiVersion),
        attempts,
      }
    },

    /** Sends one event again, whatever the filter says: same id, same bytes, a new ladder of eight. */
    replayEvent: async (
      workspace: WorkspaceId,
      id: string,
      actor: string,
    ): Promise<{ readonly replayed: number } | Refusal> => {
      const row = await active(workspace)
      if (isRefusal(row)) return row
      const event = await find(workspace, id)
      if (event === undefined) return noEvent
      const place = { messageId: event.message_id, sequence: event.sequence }
      return db.transaction(async (tx) => {
        if (!(await replayEvent(tx, workspace, place))) return { replayed: 0 }
        await note(tx, workspace, actor, 'webhook.replayed', row, { event: id })
        return { replayed: 1 }
      })
    },

    /** Sends the messages' events of a time again, those that the filter wants now. */
    replayRange: async (
      workspace: WorkspaceId,
      range: ReplayRange,
      actor: string,
    ): Promise<{ readonly replayed: number } | Refusal> => {
      if (range.from >= range.to) return refuse('invalid_request', '"from" must be before "to".', { field: 'from' })
      const row = await active(workspace)
      if (isRefusal(row)) return row
      // First: one that breaks off has sent some of them.
      await note(db, workspace, actor, 'webhook.replayed', row, range)
      return { replayed: await replayRange(db, workspace, range) }
    },
  }

  async function allowedUrl(text: string): Promise<string | Refusal> {
    const wrong = (sentence: string): Refusal => refuse('invalid_request', `"url" ${sentence}.`, { field: 'url' })
    const url = targets.parse(text)
    if (typeof url === 'string') return wrong(url)
    const found = await targets.find(url.hostname.replace(/^\[|\]$/g, ''))
    if (!('trouble' in found)) return url.href
    if (found.trouble === 'dns_failure') return wrong('names a host that has no address, or none that can be found now')
    return wrong("leads to an address that is not public, or to one of this service's own machine")
  }
}

function parseTypes(given: readonly string[] | null): readonly string[] | null | Refusal {
  if (given === null) return null
  const types = [...new Set(given)]
  const unknown = types.find((type) => !webhookEventTypeNames.includes(type as never))
  if (unknown === undefined && types.length > 0) return types
  return refuse(
    'invalid_request',
    unknown === undefined
      ? '"events" must name at least one type; leave it out for all.'
      : `"events" names "${unknown.slice(0, 40)}"; there are ${webhookEventTypeNames.join(', ')}.`,
    { field: 'events' },
  )
}

function present(row: EndpointRow): WebhookEndpoint {
  return given<WebhookEndpoint>({
    url: row.url,
    events: row.types,
    apiVersion: row.api_version,
    state: row.state,
    reason: row.reason,
    disabledAt: row.disabled_at,
    failingSince: row.failing_since,
    rotating: row.next_sealed !== null,
    previousUntil: row.previous_until,
    version: row.version,
    createdAt: row.created_at,
  })
}

function logEntry(row: LogRow): WebhookLogEntry {
  return given<WebhookLogEntry>({
    id: eventId(row.message_id as MessageId, row.sequence),
    type: row.type,
    createdAt: new Date(row.occurred_ms),
    ...(row.type !== 'webhook.test' && { messageId: row.message_id, sequence: row.sequence }),
    recipient: row.recipient,
    subject: row.subject,
    state: webhookStateOf(row),
    ...(row.due_at !== null && row.leased === false && { nextAttemptAt: row.due_at }),
  })
}

const isEventId = (text: string): boolean => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text)

const end = { messageId: greatestId, sequence: 0 }

interface Place {
  readonly messageId: string
  readonly sequence: number
}

const writePlace = ({ messageId, sequence }: Place): string =>
  Buffer.from(`${messageId} ${sequence}`).toString('base64url')

function parsePlace(text: string): Place | undefined {
  const match = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) (\d{1,9})$/.exec(
    Buffer.from(text, 'base64url').toString('latin1'),
  )
  const [, messageId = '', sequence = ''] = match ?? []
  return match === null ? undefined : { messageId, sequence: Number(sequence) }
}
