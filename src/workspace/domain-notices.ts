// Tells the owners of a workspace that one of its domains broke, stopped sending, or works: by mail of the installation's own.
import type { Log } from '../base/log.ts'
import type { Db } from '../store/database.ts'
import { listMemberRows } from '../store/members.ts'
import type { DomainChange } from './domain-check.ts'
import type { Notice, Notify } from './notices.ts'

/** Undefined where there is nothing to tell. */
function noticeOf(
  { workspaceId, domain, from }: DomainChange,
  publicUrl: string,
): Pick<Notice, 'subject' | 'bodyText'> | undefined {
  const { name, status, records } = domain
  // One key that is seen is enough: another that waits for its record broke nothing.
  const isSigned = records.some((record) => record.purpose === 'dkim' && record.status === 'verified')
  const wrong = records
    .filter(
      ({ purpose, status: seen }) =>
        (purpose === 'ownership' || (purpose === 'dkim' && !isSigned)) && seen !== 'verified' && seen !== 'retiring',
    )
    .map((record) => `${record.type} ${record.name}\n  ${record.finding ?? 'It was not found.'}`)
  const end = `\n\nSee the domain, and check again: ${publicUrl}/domains?workspace=${workspaceId}\n`
  switch (status) {
    case 'degraded':
      return {
        subject: `${name}: its DNS records are broken`,
        bodyText: `The DNS records of ${name} are not what they were.\n\n${wrong.join('\n')}\n\nMail from this domain is still sent for 72 hours. If its records are not mended by then, it stops.${end}`,
      }
    case 'failed':
      return {
        subject: `${name} sends no more mail`,
        bodyText: `The DNS records of ${name} have been broken for 72 hours. Mail from its mailboxes is refused now, until they are mended.\n\n${wrong.join('\n')}${end}`,
      }
    case 'verified':
      return {
        subject: from === 'pending' ? `${name} is verified` : `${name} works again`,
        bodyText: `The DNS records of ${name} were found${from === 'pending' ? '' : ' again'}. Mail from its mailboxes is sent.${end}`,
      }
    case 'pending':
      return undefined
  }
}

export function makeDomainNotices(tools: {
  readonly db: Db
  readonly notify: Notify
  readonly publicUrl: string
  readonly log: Log
}): (change: DomainChange) => Promise<void> {
  const { db, notify, publicUrl, log } = tools
  return async (change) => {
    const notice = noticeOf(change, publicUrl)
    if (notice === undefined) return
    try {
      const members = await listMemberRows(db, change.workspaceId)
      for (const { email, role } of members) if (role === 'owner') await notify({ to: email, ...notice })
    } catch (error) {
      // The change stands, and the dashboard shows it; only the mail about it is missing.
      log.fault('domain notices', error, { workspaceId: change.workspaceId })
    }
  }
}
