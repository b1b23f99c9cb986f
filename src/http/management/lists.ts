// Suppressions, usage, the audit log and the sandbox's inbox.
import { Readable } from 'node:stream'
import { limits } from '../../config.ts'
import { managementOperations as operations } from '../../contract/operations.ts'
import { refuse, type Refusal } from '../../domain/refusal.ts'
import {
  exportSuppressions,
  importSuppressions,
  listSandbox,
  Mistake,
  pageSuppressionsOf,
  previewSandboxMail,
  readAudit,
  readSandboxBytes,
  readSeries,
  readUsage,
  showSandboxMail,
  suppressing,
  undoRule,
  unsuppressFor,
} from '../../workspace/workspace.ts'
import type { ManagementRouter } from '../manage.ts'
import { framedMail } from './framed-mail.ts'
import { addressPagingOf, pagingOf, presentPage, timesOf } from './pages.ts'

/**
 * For what may last for minutes: what was written, or read, by then stays so, and the rest is not for whoever has lost the right: a key that is revoked meanwhile,
 * or somebody who is removed.
 */
const orRefused = (whyNoLonger: () => Promise<Refusal | undefined>) => async (): Promise<void> => {
  const refusal = await whyNoLonger()
  if (refusal !== undefined) throw new Mistake(refusal.words, refusal)
}

export function listRoutes({ member, office }: ManagementRouter): void {
  member(operations.listSuppressions, async ({ by, query }) => {
    const { before: after, most, prefix, reason } = addressPagingOf(query)
    const wish = { most, ...(after && { after }), ...(prefix && { prefix }), ...(reason && { reason }) }
    return presentPage(await pageSuppressionsOf(office, by.workspaceId, wish))
  })
  const suppress = suppressing(office)
  member(operations.addSuppression, ({ by, body }) => suppress(by, body.recipient))
  member(operations.removeSuppression, async ({ by, path }) => {
    await unsuppressFor(office, by, path.recipient)
  })
  member(operations.undoRule, ({ by, body, whyNoLonger }) =>
    undoRule(office.db, by.workspaceId, body, by.actor, orRefused(whyNoLonger)),
  )
  member(operations.exportSuppressions, ({ by, reply, whyNoLonger }) => {
    reply.headers({
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': 'attachment; filename="suppressions.csv"',
    })
    // It lasts as long as its reader likes.
    return Promise.resolve(Readable.from(exportSuppressions(office.db, by.workspaceId, orRefused(whyNoLonger))))
  })
  member(
    operations.importSuppressions,
    ({ by, body: { csv, reason, dryRun }, whyNoLonger }) =>
      importSuppressions(office.db, by.workspaceId, csv, by.actor, { reason, dryRun, mayGoOn: orRefused(whyNoLonger) }),
    limits.suppressionRequestBytesMax,
  )

  member(operations.readUsage, ({ by }) => readUsage(office.db, by.workspaceId))
  member(operations.readUsageSeries, ({ by, query: { step = 'hour', ...range } }) =>
    readSeries(office.db, by.workspaceId, step, timesOf(range)),
  )

  member(operations.readAudit, async ({ by, query }) => {
    const { before, most } = pagingOf(query)
    return presentPage(await readAudit(office, by.workspaceId, before, most))
  })

  member(operations.listSandbox, async ({ by, query }) =>
    presentPage(await listSandbox(office.db, by.workspaceId, pagingOf(query))),
  )
  member(operations.readSandboxMail, ({ by, path }) => showSandboxMail(office.db, by.workspaceId, path.mailId))
  member(operations.readSandboxHtml, async ({ by, path, reply }) => {
    const { html, pictureOf } = await previewSandboxMail(office.db, by.workspaceId, path.mailId)
    if (html === undefined) return refuse('not_found', 'This mail has no HTML.')
    return framedMail(reply, html, pictureOf)
  })
  member(operations.readSandboxBytes, async ({ by, path, reply }) => {
    const { sizeBytes, bytes } = await readSandboxBytes(office.db, by.workspaceId, path.mailId)
    // Mail of strangers is never shown by the browser itself.
    reply.headers({
      'content-type': 'message/rfc822',
      'content-disposition': 'attachment; filename="mail.eml"',
      'content-length': sizeBytes,
    })
    return Readable.from(bytes)
  })
}
