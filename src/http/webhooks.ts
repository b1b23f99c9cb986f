// The webhook endpoint of a workspace and its log, under /api/v1/webhook (decisions G). Everything that is decided is behind the doors; here
// requests become values, and answers JSON.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Compile } from 'typebox/compile'
import { doneFor } from '../base/turns.ts'
import { parseUuid } from '../base/uuid.ts'
import { limits } from '../config.ts'
import { logFilter, ReplayRequest, SetWebhookRequest, webhooks as operations } from '../contract/management/webhooks.ts'
import type { Operation, Scope } from '../contract/operation.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { isRefusal, refuse, type Refusal } from '../domain/refusal.ts'
import type { Gate } from './authenticate.ts'
import { answerRefusal, type Face } from './face.ts'
import { bodyOf } from './manage.ts'
import { readPage } from './page-query.ts'
import type { BodyRooms } from './read-body.ts'
import { makeQueryReader } from './shape.ts'
import { parseDateTime } from '../mail/date-time-rfc3339.ts'
import { misshapen, withoutFormats } from './send-request.ts'

const wholeSet = Compile(withoutFormats(SetWebhookRequest))
const wholeReplay = Compile(withoutFormats(ReplayRequest))

const readLogFilter = makeQueryReader(logFilter)

const notAnEventId = refuse('invalid_request', '"eventId" must be a UUID, as the log shows it.', { field: 'eventId' })

type Work = (workspace: WorkspaceId, request: FastifyRequest, actor: string) => Promise<object>

export function webhookRoutes(
  app: FastifyInstance,
  face: Face,
  gateOf: (scope: Scope) => Gate,
  rooms: BodyRooms,
): void {
  const { webhooks } = face.doors
  const gates = {
    'webhooks.read': gateOf('webhooks.read'),
    'webhooks.write': gateOf('webhooks.write'),
  }
  const route = (operation: Operation & { scope: keyof typeof gates }, work: Work) =>
    answering(app, face, operation, gates[operation.scope], work)
  const withBody = (
    operation: Operation & { scope: keyof typeof gates },
    work: (workspace: WorkspaceId, body: unknown, actor: string) => Promise<object>,
  ) =>
    app.route({
      method: operation.method.toUpperCase(),
      url: operation.path,
      handler: async (request, reply) => {
        const principal = await gates[operation.scope](request)
        if (isRefusal(principal)) return answerRefusal(face, request, reply, principal)
        const { workspaceId, actor } = principal
        const read = await bodyOf(request, reply, rooms, workspaceId, limits.managementRequestBytesMax)
        try {
          // Asked again, as behind every body of the management API (manage.ts).
          const still = isRefusal(read) ? read : await gates[operation.scope](request)
          const body = isRefusal(still) ? still : read
          const answer = isRefusal(body) ? body : await doneFor(workspaceId, () => work(workspaceId, body.value, actor))
          return answerWith(face, request, reply, answer)
        } finally {
          if (!isRefusal(read)) read.done()
        }
      },
    })

  route(operations.readWebhook, (workspace) => webhooks.show(workspace))
  withBody(operations.setWebhook, (workspace, body, actor) =>
    wholeSet.Check(body) ? webhooks.set(workspace, body, actor) : refused(misshapen(wholeSet.Errors(body))),
  )
  route(operations.enableWebhook, (workspace, _, actor) => webhooks.enable(workspace, actor))
  route(operations.disableWebhook, (workspace, _, actor) => webhooks.disable(workspace, actor))
  route(operations.rotateWebhook, (workspace, _, actor) => webhooks.rotate(workspace, actor))
  route(operations.promoteWebhook, (workspace, _, actor) => webhooks.promote(workspace, actor))
  route(operations.testWebhook, (workspace, _, actor) => webhooks.test(workspace, actor))
  withBody(operations.replayWebhook, (workspace, body, actor) => {
    if (!wholeReplay.Check(body)) return refused(misshapen(wholeReplay.Errors(body)))
    const wish = parseReplay(body)
    if (isRefusal(wish)) return refused(wish)
    return 'eventId' in wish
      ? webhooks.replayEvent(workspace, wish.eventId, actor)
      : webhooks.replayRange(workspace, wish, actor)
  })
  route(operations.listWebhookEvents, async (workspace, request) => {
    const { after, limit, ...rest } = request.query as Readonly<Record<string, unknown>>
    const page = readPage({ ...(after !== undefined && { after }), ...(limit !== undefined && { limit }) })
    const filter = readLogFilter(rest)
    if (isRefusal(page)) return page
    if (isRefusal(filter)) return filter
    const answer = await webhooks.log(workspace, page.after, page.limit, filter.value)
    return isRefusal(answer)
      ? answer
      : { events: answer.items, ...(answer.next !== undefined && { next: answer.next }) }
  })
  route(operations.readWebhookEvent, (workspace, request) => {
    const id = parseUuid((request.params as { eventId: string }).eventId)
    return id === undefined ? refused(notAnEventId) : webhooks.event(workspace, id)
  })
}

/** A route without a body: the gate, the work, and its answer or refusal as JSON. */
export function answering(app: FastifyInstance, face: Face, operation: Operation, enter: Gate, work: Work): void {
  app.route({
    method: operation.method.toUpperCase(),
    url: operation.path.replace(/\{(\w+)\}/g, ':$1'),
    handler: async (request, reply) => {
      const principal = await enter(request)
      if (isRefusal(principal)) return answerRefusal(face, request, reply, principal)
      const { workspaceId, actor } = principal
      const answer = await doneFor(workspaceId, () => work(workspaceId, request, actor))
      return answerWith(face, request, reply, answer)
    },
  })
}

function answerWith(face: Face, request: FastifyRequest, reply: FastifyReply, answer: object) {
  if (isRefusal(answer)) return answerRefusal(face, request, reply, answer)
  face.metrics?.answered(request.routeOptions.url ?? '', 200, (performance.now() - request.beganAt) / 1000)
  // No schema stands over the bodies of events: they are told as they are posted.
  return reply.send(answer)
}

const refused = (refusal: Refusal): Promise<Refusal> => Promise.resolve(refusal)

type Wish = { readonly eventId: string } | { readonly from: Date; readonly to: Date; readonly undelivered: boolean }

function parseReplay(body: { eventId?: string; from?: string; to?: string; undelivered?: boolean }): Wish | Refusal {
  if (body.eventId !== undefined) {
    const id = parseUuid(body.eventId)
    if (body.from !== undefined || body.to !== undefined || body.undelivered !== undefined)
      return refuse('invalid_request', '"eventId" stands alone, without "from", "to" and "undelivered".', {
        field: 'eventId',
      })
    return id === undefined ? notAnEventId : { eventId: id }
  }
  const times = [body.from, body.to].map((text) => (text === undefined ? undefined : parseDateTime(text)))
  for (const [index, field] of (['from', 'to'] as const).entries())
    if (times[index] === undefined)
      return refuse(
        'invalid_request',
        `"${field}" must be a time such as 2026-11-21T09:30:00Z; give "from" and "to", or "eventId".`,
        { field },
      )
  return { from: new Date(times[0] ?? 0), to: new Date(times[1] ?? 0), undelivered: body.undelivered === true }
}
