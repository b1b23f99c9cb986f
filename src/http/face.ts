// What every route of this face is given, and how each of them answers: a refusal as Error JSON with its headers, a
// fault as plain words, and one wide log line when everything is decided. Specification 2.8 and 7, decisions D and I.
import type { OutgoingHttpHeaders } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { given } from '../base/given.ts'
import type { Log } from '../base/log.ts'
import { release } from '../base/release.ts'
import { limits } from '../config.ts'
import type { ErrorBody } from '../contract/error.ts'
import type { NodeStop } from '../domain/delivery-stop.ts'
import type { DeliveryEventRecord, MessageId, WorkspaceId } from '../domain/message.ts'
import { refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'
import type { RefusedSubmission } from '../domain/refused-submission.ts'
import type { Accepted, MessageRecord, Principal, QuotaState, Submission } from '../domain/submission.ts'
import type { Page } from '../domain/page.ts'
import type {
  WebhookEndpoint,
  WebhookEndpointWithSecret,
  WebhookEventDetail,
  WebhookLogEntry,
  WebhookLogFilter,
} from '../domain/webhook.ts'
import type { Feeds } from '../feeds/feeds.ts'
import { rateLimitHeaders } from './rate-limit.ts'
import { refusals, retryAfterSeconds } from './refusals.ts'

/** A refusal because a quota is used up tells the state of its windows. */
export type QuotaRefusal = Refusal & { readonly quota?: readonly QuotaState[] }

/** What an owner does with the webhook endpoint (webhooks/desk.ts). `actor` is who did it, for the audit log. */
export interface WebhookDoors {
  show(workspace: WorkspaceId): Promise<WebhookEndpoint | Refusal>
  set(
    workspace: WorkspaceId,
    wish: { readonly url: string; readonly events?: readonly string[] | null; readonly version?: number },
    actor: string,
  ): Promise<WebhookEndpointWithSecret | Refusal>
  enable(workspace: WorkspaceId, actor: string): Promise<WebhookEndpoint | Refusal>
  disable(workspace: WorkspaceId, actor: string): Promise<WebhookEndpoint | Refusal>
  rotate(workspace: WorkspaceId, actor: string, version?: number): Promise<WebhookEndpointWithSecret | Refusal>
  promote(workspace: WorkspaceId, actor: string, version?: number): Promise<WebhookEndpoint | Refusal>
  test(workspace: WorkspaceId, actor: string): Promise<{ readonly eventId: string } | Refusal>
  log(
    workspace: WorkspaceId,
    after: string | undefined,
    limit?: number,
    filter?: WebhookLogFilter,
  ): Promise<Page<WebhookLogEntry> | Refusal>
  event(workspace: WorkspaceId, id: string): Promise<WebhookEventDetail | Refusal>
  replayEvent(workspace: WorkspaceId, id: string, actor: string): Promise<{ readonly replayed: number } | Refusal>
  replayRange(
    workspace: WorkspaceId,
    range: { readonly from: Date; readonly to: Date; readonly undelivered: boolean },
    actor: string,
  ): Promise<{ readonly replayed: number } | Refusal>
}

/** The doors of the other rooms. Each may throw a fault. */
export interface HttpDoors {
  authenticate(secret: string): Promise<Principal | undefined>
  accept(submission: Submission): Promise<Accepted | QuotaRefusal>
  readStatus(
    workspace: WorkspaceId,
    id: MessageId,
  ): Promise<{ readonly message: MessageRecord; readonly events: readonly DeliveryEventRecord[] } | undefined>
  noteRefused(refused: RefusedSubmission): void
  /** The limited windows of a workspace, for a send that is refused before admission tells them. */
  quota(workspace: WorkspaceId): Promise<readonly QuotaState[]>
  readonly webhooks: WebhookDoors
  catchUp(
    workspace: WorkspaceId,
    after: string | undefined,
    limit: number | undefined,
  ): Promise<{ readonly events: readonly object[]; readonly next: string; readonly more: boolean } | Refusal>
  /** Takes what relay providers post; left out where feeds are not received. */
  readonly feed?: Feeds
  ready(): Promise<{
    readonly ready: boolean
    readonly detail: Readonly<Record<string, string>>
    readonly nodeStop?: NodeStop
  }>
}

export interface HttpMetrics {
  /** One answered request. `route` is the path as declared, so that there are few of them. */
  answered(route: string, status: number, seconds: number): void
}

export interface Face {
  readonly doors: HttpDoors
  readonly log: Log
  /** Of a fault: the database cannot be reached, cannot keep up, or takes nothing (a full disk), so that trying later makes sense. */
  readonly isDatabaseAway: (error: unknown) => boolean
  readonly publicUrl: string
  /** The folder of the built dashboard; undefined where it could not be built. */
  readonly dashboard: () => string | undefined
  readonly metrics?: HttpMetrics
}

export const jsonType = 'application/json; charset=utf-8'

/** Says no. A body that was not read is not read any more: the connection closes. */
export function answerRefusal(face: Face, request: FastifyRequest, reply: FastifyReply, refusal: QuotaRefusal) {
  const status = refusals[refusal.code]
  reply.code(status).header('content-type', jsonType)
  if (status === 401) reply.header('www-authenticate', 'Bearer')
  const retryAfter = refusal.retryAfterSeconds ?? retryAfterSeconds[refusal.code]
  if (retryAfter !== undefined) reply.header('retry-after', Math.max(1, Math.ceil(retryAfter)))
  if (refusal.quota !== undefined) reply.headers(rateLimitHeaders(refusal.quota))
  face.log.refused({
    requestId: request.id,
    method: request.method,
    route: routeOf(request),
    status,
    code: refusal.code,
    field: refusal.field,
    why: refusal.why,
    ms: counted(face, request, status),
    workspaceId: request.principal?.workspaceId,
    keyId: request.principal?.keyId,
  })
  const body = JSON.stringify(errorBody(refusal))
  return hasUnreadBody(request) ? answerUnread(request, reply, status, body) : reply.send(body)
}

/** Counts an answer among the metrics; returns how many ms it took, as the log tells it. */
export function counted(face: Face, request: FastifyRequest, status: number): number {
  const ms = performance.now() - request.beganAt
  face.metrics?.answered(routeOf(request), status, ms / 1000)
  return Math.round(ms * 10) / 10
}

export function errorBody(refusal: Refusal): ErrorBody {
  const { code, field, upgradeUrl } = refusal
  return given<ErrorBody>({
    error: refusal.words,
    code,
    field,
    upgradeUrl,
  })
}

/** A thrown fault: the log sees all, the caller plain words. */
export function answerFault(face: Face, request: FastifyRequest, reply: FastifyReply, error: unknown) {
  const away = face.isDatabaseAway(error)
  face.log.fault(away ? 'http: the database is away' : 'http', error, about(request))
  // What was to be a file has failed before its first byte: by then its headers stand at the response itself.
  reply.removeHeader('content-disposition')
  reply.raw.removeHeader('content-disposition')
  const refusal = away
    ? refuse(
        'service_unavailable',
        'The service cannot use its database at this moment. Try again in a few seconds; a send with the same Idempotency-Key, since it may have been accepted.',
      )
    : refuse(
        'internal_error',
        `Something is broken here, and it is not your request. Quote the request id ${request.id}.`,
      )
  return answerRefusal(face, request, reply, refusal)
}

/** A fault of an answer that has begun: its reader sees it broken off, and the log alone can say why. */
export function noteBrokenOff(face: Face, request: FastifyRequest, error: unknown): void {
  face.log.fault('http: an answer broke off', error, about(request))
}

const about = (request: FastifyRequest) => ({ requestId: request.id, route: routeOf(request) })

export function answerNotFound(face: Face, request: FastifyRequest, reply: FastifyReply) {
  const refusal = refuse('not_found', 'There is nothing at this address with this method; /docs lists what there is.')
  return answerRefusal(face, request, reply, refusal)
}

/** The declared path, never the requested one: that is a stranger's text of any length. */
function routeOf(request: FastifyRequest): string {
  const { url } = request.routeOptions
  return url === undefined || url === '/*' ? 'unknown' : url
}

function hasUnreadBody(request: FastifyRequest): boolean {
  if (request.bodyRead) return false
  const length = request.headers['content-length']
  return request.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')
}

/**
 * Writes the whole answer, then throws away the rest of the body as it comes, within bounds, before the connection closes. Closing at once would reset
 * it under a caller that is still sending, and the answer would be lost. Many callers read nothing before they have sent everything, even some that
 * asked first whether they may (`Expect`): they were told to go on, or went on after a second (RFC 9110 10.1.1).
 */
function answerUnread(request: FastifyRequest, reply: FastifyReply, status: number, body: string): FastifyReply {
  reply.hijack()
  const incoming = request.raw
  const outgoing = reply.raw
  outgoing.writeHead(status, {
    ...(reply.getHeaders() as OutgoingHttpHeaders),
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  })
  outgoing.write(body)
  let left = limits.lingerBytesMax
  const end = (): void => {
    clearTimeout(timer)
    if (!outgoing.writableEnded) outgoing.end()
  }
  const until = performance.now() + limits.lingerMs
  const timer = setTimeout(end, limits.lingerIdleMs)
  incoming.on('data', (chunk: Buffer) => {
    left -= chunk.length
    release(chunk) // many large bodies are refused at the same moment
    if (left < 0 || performance.now() > until) end()
    else timer.refresh()
  })
  incoming.once('end', end).once('close', end).once('error', end)
  incoming.resume()
  return reply
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Who asks, once that is proved. */
    principal: Principal | null
    /** Whose share it takes, once that is proved: a workspace's or a person's; '' of a stranger. */
    owner: string
    /** On the clock of `performance.now()`: when its head had been read. */
    beganAt: number
    /** The body was read to its end. */
    bodyRead: boolean
  }
}
