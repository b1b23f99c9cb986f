// The one webhook endpoint of a workspace: one function per statement. What a sender must know changes `version` with it.
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { DisableReason, WebhookEventType } from '../domain/webhook.ts'
import { sql, type Db } from './database.ts'

export interface EndpointRow {
  readonly url: string
  readonly types: readonly WebhookEventType[] | null
  readonly api_version: string
  readonly state: 'active' | 'disabled'
  readonly reason: DisableReason | null
  readonly disabled_at: Date | null
  readonly secret_sealed: Buffer
  readonly next_sealed: Buffer | null
  /** Null, too, when its time is over. */
  readonly previous_sealed: Buffer | null
  readonly previous_until: Date | null
  readonly previous_ms: number | null
  readonly failing_since: Date | null
  readonly version: number
  readonly created_at: Date
}

const current = 'e.previous_until > app_now()'
const columns = `e.url, e.types, e.api_version, e.state, e.reason, e.disabled_at, e.secret_sealed, e.next_sealed,
  case when ${current} then e.previous_sealed end previous_sealed, case when ${current} then e.previous_until end previous_until,
  case when ${current} then (extract(epoch from e.previous_until - app_now()) * 1000)::float8 end previous_ms,
  e.failing_since, e.version, e.created_at`

const find = sql('webhook-endpoint', `select ${columns} from webhook_endpoints e where e.workspace_id = $1`)
const insert = sql(
  'webhook-endpoint-insert',
  `insert into webhook_endpoints as e (workspace_id, url, types, api_version, secret_sealed) values ($1, $2, $3, $4, $5)
   on conflict (workspace_id) do nothing returning ${columns}`,
)
/** Of the endpoint as whoever asks has seen it; null: whatever it is by now. */
const asSeen = (parameter: string) => `e.version = coalesce(${parameter}::integer, e.version)`
// Locks the one row, so that what it was is what it is changed from.
const change = sql(
  'webhook-endpoint-change',
  `with was as materialized (select e.url from webhook_endpoints e where e.workspace_id = $1 and ${asSeen('$5')} for update)
   update webhook_endpoints e
      set url = $2, types = case when $4 then $3::text[] else e.types end, version = e.version + 1,
          failing_since = case when e.url = $2 then e.failing_since end
     from was where e.workspace_id = $1 returning ${columns}, was.url <> e.url moved`,
)
const enable = sql(
  'webhook-endpoint-enable',
  `update webhook_endpoints e
      set state = 'active', reason = null, disabled_at = null, failing_since = null, version = e.version + 1
    where e.workspace_id = $1 returning ${columns}`,
)
const disable = sql(
  'webhook-endpoint-disable',
  `update webhook_endpoints e
      set state = 'disabled', reason = coalesce(e.reason, 'by_hand'), disabled_at = coalesce(e.disabled_at, app_now()), version = e.version + 1
    where e.workspace_id = $1 returning ${columns}`,
)
const prepare = sql(
  'webhook-endpoint-prepare',
  `update webhook_endpoints e set next_sealed = $2, version = e.version + 1 where e.workspace_id = $1 and ${asSeen('$3')} returning ${columns}`,
)
const promote = sql(
  'webhook-endpoint-promote',
  `update webhook_endpoints e
      set secret_sealed = e.next_sealed, next_sealed = null, previous_sealed = e.secret_sealed,
          previous_until = app_now() + $2 * interval '1 millisecond', version = e.version + 1
    where e.workspace_id = $1 and e.next_sealed is not null and ${asSeen('$3')} returning ${columns}`,
)

const untold = `e.state = 'disabled' and e.reason <> 'by_hand' and e.told_of is distinct from e.disabled_at`
const takeUntold = sql(
  'webhook-take-untold',
  `with owed as materialized (
     select e.workspace_id from webhook_endpoints e
      where ${untold} and e.disabled_at > app_now() - $1 * interval '1 millisecond' and (e.telling_until is null or e.telling_until < app_now())
      order by e.disabled_at limit $2 for update skip locked)
   update webhook_endpoints e set telling_until = app_now() + $3 * interval '1 millisecond'
     from owed o join workspaces w on w.id = o.workspace_id
    where e.workspace_id = o.workspace_id
   returning e.workspace_id, coalesce(w.own_name, w.name) workspace, e.url, e.reason,
     to_char(e.disabled_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') moment`,
)
const noteTold = sql(
  'webhook-note-told',
  'update webhook_endpoints e set told_of = e.disabled_at, telling_until = null where e.workspace_id = $1 and e.disabled_at = $2::timestamptz',
)
const postponeUntold = sql(
  'webhook-postpone-untold',
  `update webhook_endpoints e set telling_until = app_now() + $2 * interval '1 millisecond' where e.workspace_id = $1`,
)

const troubled = sql(
  'webhook-endpoints-by-state',
  `select x.state, count(*)::integer many, (array_agg(x.name order by x.since, x.name) filter (where x.troubled))[1:$3] names
     from (
       select w.name, coalesce(e.disabled_at, e.failing_since) since, s.state, s.state in ('failing', 'disabled_by_itself') troubled
         from webhook_endpoints e join workspaces w on w.id = e.workspace_id cross join lateral (
           select case when e.state <> 'active' then case when e.reason <> 'by_hand' and e.disabled_at > l.lately then 'disabled_by_itself' else 'disabled' end
                       when e.failing_since > l.lately and e.failing_since <= app_now() - $1 * interval '1 millisecond' then 'failing'
                       else 'active' end state
             from (select app_now() - $2 * interval '1 millisecond' lately) l) s
        where w.removing_since is null) x
    group by x.state`,
)

/** How endpoints fare, for operators. */
export const endpointStates = ['active', 'failing', 'disabled_by_itself', 'disabled'] as const
export type EndpointState = (typeof endpointStates)[number]

/** An endpoint that was disabled by itself, and nobody told of it. */
export interface UntoldEndpoint {
  readonly workspace_id: WorkspaceId
  /** Its name. */
  readonly workspace: string
  readonly url: string
  readonly reason: Exclude<DisableReason, 'by_hand'>
  /** Of this disabling: UTC, to the microsecond. */
  readonly moment: string
}

type One = Promise<EndpointRow | undefined>
const first = async (rows: Promise<EndpointRow[]>): One => (await rows)[0]

export const findEndpoint = (db: Db, workspace: WorkspaceId): One => first(db.rows(find, [workspace]))

/** Undefined where the workspace has one already. */
export const insertEndpoint = (
  db: Db,
  workspace: WorkspaceId,
  made: { url: string; types: readonly string[] | null; apiVersion: string; secret: Buffer },
): One => first(db.rows(insert, [workspace, made.url, made.types, made.apiVersion, made.secret]))

/**
 * `types` left out: the filter stays. What failed at another URL counts no more. `moved`: it had another URL. Undefined, as of what follows, where it is of another
 * `version` by now than whoever changes it has seen.
 */
export async function changeEndpoint(
  db: Db,
  workspace: WorkspaceId,
  changes: { url: string; types?: readonly string[] | null; version?: number | undefined },
): Promise<(EndpointRow & { readonly moved: boolean }) | undefined> {
  const { url, types, version } = changes
  const values = [workspace, url, types ?? null, types !== undefined, version ?? null]
  return (await db.rows<EndpointRow & { moved: boolean }>(change, values))[0]
}

export const enableEndpoint = (db: Db, workspace: WorkspaceId): One => first(db.rows(enable, [workspace]))
export const disableEndpoint = (db: Db, workspace: WorkspaceId): One => first(db.rows(disable, [workspace]))

/** Keeps a new secret beside the one that signs. */
export const prepareSecret = (db: Db, workspace: WorkspaceId, secret: Buffer, version?: number): One =>
  first(db.rows(prepare, [workspace, secret, version ?? null]))

/** The prepared secret signs from now on, and the old one beside it for `previousMs`. Undefined where none is prepared, too. */
export const promoteSecret = (db: Db, workspace: WorkspaceId, previousMs: number, version?: number): One =>
  first(db.rows(promote, [workspace, previousMs, version ?? null]))

/**
 * How many are in each state, and the workspaces of some that need somebody, those in trouble the longest first. Not told for
 * ever: one with few events fails until the next success, and some are missed by nobody.
 */
export async function countEndpoints(
  db: Db,
): Promise<ReadonlyMap<EndpointState, { readonly many: number; readonly names: readonly string[] }>> {
  const { webhookFailingLongMs, webhookTroubleLatelyMs, doctorWorkspacesShown } = limits
  const rows = await db.rows<{ state: EndpointState; many: number; names: readonly string[] | null }>(troubled, [
    webhookFailingLongMs,
    webhookTroubleLatelyMs,
    doctorWorkspacesShown,
  ])
  return new Map(rows.map(({ state, many, names }) => [state, { many, names: names ?? [] }]))
}

/**
 * Takes up to `most` that were disabled within `withinMs`: for `leaseMs` no other node gets them, and after that any does, until they are
 * noted as told. Skips rows that another one is taking.
 */
export const takeUntoldEndpoints = (
  db: Db,
  { withinMs, most, leaseMs }: { readonly withinMs: number; readonly most: number; readonly leaseMs: number },
): Promise<UntoldEndpoint[]> => db.rows<UntoldEndpoint>(takeUntold, [withinMs, most, leaseMs])

export async function postponeUntoldEndpoint(db: Db, workspace: WorkspaceId, ms: number): Promise<void> {
  await db.rows(postponeUntold, [workspace, ms])
}

/** Unless it was enabled meanwhile, and disabled again. */
export async function noteToldEndpoint(db: Db, { workspace_id: workspace, moment }: UntoldEndpoint): Promise<void> {
  await db.rows(noteTold, [workspace, moment])
}
