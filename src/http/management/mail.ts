// Messages as the dashboard shows them, and sending again what failed, or what nobody can know about.
import { managementOperations as operations } from '../../contract/operations.ts'
import type { MessageId } from '../../domain/message.ts'
import { isRefusal, refuse } from '../../domain/refusal.ts'
import { mayNotSend } from '../../domain/standing.ts'
import { contentOf, pageRefused, searchMessages, sendAgain, timelineOf } from '../../workspace/workspace.ts'
import type { ManagementRouter } from '../manage.ts'
import { presentAccepted, presentStatus } from '../present.ts'
import { framedMail } from './framed-mail.ts'
import { pagingOf, presentPage, timesOf } from './pages.ts'

export function mailRoutes({ member, office }: ManagementRouter): void {
  member(operations.listMessages, async ({ by, query }) => {
    const { lookedBackTo, ...found } = await searchMessages(office.db, by.workspaceId, timesOf(pagingOf(query)))
    return { ...presentPage(found), ...(lookedBackTo && { lookedBackTo }) }
  })

  member(operations.listRefused, async ({ by, query }) =>
    presentPage(await pageRefused(office.db, by.workspaceId, timesOf(pagingOf(query)))),
  )

  member(operations.readTimeline, async ({ by, path }) => {
    const timeline = await timelineOf(office.db, by, path.messageId as MessageId)
    const {
      events,
      reports,
      attempts,
      queue,
      sandboxMailId,
      sendAgainAt,
      sentAgainAs,
      sentAgainFor,
      sentAgainForStatus,
      ...record
    } = timeline
    const told = presentStatus(record, reports)
    return {
      message: told.message,
      processingStatus: told.processingStatus,
      deliveryStatus: told.deliveryStatus,
      events: events.map(({ facts, ...event }) => ({ ...event, ...(facts && { facts: { ...facts } }) })),
      reports: told.events,
      attempts: attempts.map((attempt) => ({ ...attempt, facts: { ...attempt.facts } })),
      ...(queue && { queue }),
      ...(sandboxMailId && { sandboxMailId }),
      ...(sendAgainAt && { sendAgainAt }),
      ...(sentAgainAs && { sentAgainAs }),
      ...(sentAgainFor && { sentAgainFor }),
      ...(sentAgainForStatus && { sentAgainForStatus }),
    }
  })

  member(operations.readContent, async ({ by, path }) => {
    const {
      html,
      pictureOf: _pictures,
      ...content
    } = await contentOf(office.db, by.workspaceId, path.messageId as MessageId)
    return { ...content, html: html !== undefined }
  })

  member(operations.readContentHtml, async ({ by, path, reply }) => {
    const { html, pictureOf } = await contentOf(office.db, by.workspaceId, path.messageId as MessageId)
    if (html === undefined) return refuse('not_found', 'This message has no HTML.')
    return framedMail(reply, html, pictureOf)
  })

  member(operations.sendAgain, async ({ by, path, principal, reply }) => {
    const standing = principal ?? (await office.standing(by.workspaceId))
    const refusal = standing === undefined ? gone : mayNotSend(standing)
    if (refusal !== undefined) return refusal
    const answer = await sendAgain(office, by, path.messageId as MessageId)
    if (isRefusal(answer)) return answer
    if (answer.replayed) reply.header('idempotent-replayed', 'true')
    return presentAccepted(answer.message)
  })
}

const gone = refuse('not_found', 'There is no such workspace.')
