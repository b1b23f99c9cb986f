// Tells the owners of a workspace by mail that its webhook endpoint was disabled by itself (decisions G: 410, or 120 hours without a success).
// Every node that serves the API looks now and then; one of them takes it. Whatever dies in between, each owner gets it once: what is owed
// stands in the endpoint's row until all were told, and a mail that was accepted is accepted no second time.
import type { Log } from '../base/log.ts'
import { repeatingService } from '../base/repeating.ts'
import type { Service } from '../base/service.ts'
import { limits } from '../config.ts'
import type { Db } from '../store/database.ts'
import { listMemberRows } from '../store/members.ts'
import {
  noteToldEndpoint,
  postponeUntoldEndpoint,
  takeUntoldEndpoints,
  type UntoldEndpoint,
} from '../store/webhook-endpoints.ts'
import type { Notice, Notify } from './notices.ts'

export interface WebhookNoticeTools {
  readonly db: Db
  readonly notify: Notify
  readonly publicUrl: string
  readonly log: Log
}

export function webhookNotices(tools: WebhookNoticeTools): Service {
  return repeatingService(
    'webhook notices',
    () => limits.webhookNoticesLookMs,
    () => tellUntold(tools),
    (error) => tools.log.fault('webhook notices', error),
  )
}

/** One look. What was refused for somebody is said again later; those who have it already get no second one. */
export async function tellUntold({ db, notify, publicUrl }: WebhookNoticeTools): Promise<void> {
  const untold = await takeUntoldEndpoints(db, {
    withinMs: limits.webhookNoticeForMs,
    most: limits.webhookNoticesPerRound,
    leaseMs: limits.webhookNoticeLeaseMs,
  })
  for (const endpoint of untold) {
    const members = await listMemberRows(db, endpoint.workspace_id)
    const notice = noticeOf(endpoint, publicUrl)
    let all = true
    for (const { userId: user, email, role } of members)
      if (role === 'owner') {
        const once = `webhook disabled ${endpoint.workspace_id} ${endpoint.moment} ${user}`
        all = (await notify({ to: email, ...notice, once })) && all
      }
    if (all) await noteToldEndpoint(db, endpoint)
    else await postponeUntoldEndpoint(db, endpoint.workspace_id, limits.webhookNoticeAgainMs)
  }
}

const reasons = {
  receiver_gone: 'Its receiver answered "410 Gone" to the last try at an event.',
  no_success: 'No try at any event has succeeded for 120 hours.',
} as const satisfies Record<UntoldEndpoint['reason'], string>

function noticeOf(
  { workspace_id: id, workspace, url, reason }: UntoldEndpoint,
  publicUrl: string,
): Pick<Notice, 'subject' | 'bodyText'> {
  return {
    subject: `The webhook of ${workspace} is disabled`,
    // The host alone: paths and parameters hold secrets of their receivers, and mail is read by many.
    bodyText: `Posthorn posts no more events of ${workspace} to ${new URL(url).host}.\n\n${reasons[reason]}\n\nMail is sent as before, and events are kept. When the receiver works again, enable the endpoint, and send again what it has missed: ${publicUrl}/webhook?workspace=${id}\n`,
  }
}
