// The webhook endpoint of a workspace, its log, and all its events in the order of their commits (decisions G).
import { managementOperations as operations } from '../../contract/operations.ts'
import { isRefusal, type Refusal } from '../../domain/refusal.ts'
import type { ManagementRouter } from '../manage.ts'
import { wrong } from '../shape.ts'

export function webhookRoutes({ member, doors }: ManagementRouter): void {
  const { webhooks } = doors
  member(operations.readWebhook, ({ by }) => webhooks.show(by.workspaceId))
  member(operations.setWebhook, ({ by, body }) => webhooks.set(by.workspaceId, body, by.actor))
  member(operations.enableWebhook, ({ by }) => webhooks.enable(by.workspaceId, by.actor))
  member(operations.disableWebhook, ({ by }) => webhooks.disable(by.workspaceId, by.actor))
  member(operations.rotateWebhook, ({ by, query }) => webhooks.rotate(by.workspaceId, by.actor, query.version))
  member(operations.promoteWebhook, ({ by, query }) => webhooks.promote(by.workspaceId, by.actor, query.version))
  member(operations.testWebhook, ({ by }) => webhooks.test(by.workspaceId, by.actor))
  member(operations.replayWebhook, ({ by, body }) => {
    const wish = replayWish(body)
    if (isRefusal(wish)) return Promise.resolve(wish)
    return 'eventId' in wish
      ? webhooks.replayEvent(by.workspaceId, wish.eventId, by.actor)
      : webhooks.replayRange(by.workspaceId, wish, by.actor)
  })
  member(operations.listWebhookEvents, async ({ by, query: { after, limit, ...filter } }) => {
    const page = await webhooks.log(by.workspaceId, after, limit, filter)
    return isRefusal(page) ? page : { events: page.items, ...(page.next !== undefined && { next: page.next }) }
  })
  member(operations.readWebhookEvent, ({ by, path }) => webhooks.event(by.workspaceId, path.eventId))
  member(operations.catchUpEvents, ({ by, query }) => doors.catchUp(by.workspaceId, query.after, query.limit))
}

type Wish = { readonly eventId: string } | { readonly from: Date; readonly to: Date; readonly undelivered: boolean }

function replayWish(body: { eventId?: string; from?: string; to?: string; undelivered?: boolean }): Wish | Refusal {
  const { eventId, from, to, undelivered } = body
  if (eventId !== undefined)
    return from === undefined && to === undefined && undelivered === undefined
      ? { eventId }
      : wrong('eventId', 'stands alone, without "from", "to" and "undelivered"')
  const both = 'must be a time such as 2026-11-21T09:30:00Z; give "from" and "to", or "eventId"'
  if (from === undefined) return wrong('from', both)
  if (to === undefined) return wrong('to', both)
  return { from: new Date(from), to: new Date(to), undelivered: undelivered === true }
}
