// Whether the installation's own mail (password resets, invitations, notices) comes from a domain that receivers can know. The first start makes a
// sender by its own word, so that nobody waits for one; on a route that leaves the machine that word is worth nothing.
import type { Settings } from '../config.ts'
import { fail, ok, skipped, warn, type Finding } from './finding.ts'

/** What the doctor asks about the sender; undefined where there is none. */
export interface SeenSender {
  readonly address: string
  readonly mailbox: 'active' | 'disabled'
  readonly workspace: {
    readonly id: string
    readonly name: string
    readonly status: 'active' | 'blocked'
    readonly route?: Settings['POSTHORN_ROUTE']['kind']
  }
  readonly domain: {
    readonly name: string
    readonly status: 'pending' | 'verified' | 'degraded' | 'failed'
    readonly vouched: boolean
    readonly dkimSeen: boolean
  }
}

/** Nobody can own them: RFC 2606 and 6761, and what is known to one network alone (RFC 6762, ICANN's `.internal`). */
const nobodys = /(?:^|\.)(?:example|invalid|test|local|localhost|localdomain|internal|example\.(?:com|net|org))$/

const what = 'Password resets, invitations and notices'
const page = "docs/production.md, The installation's own mail"

export function checkSystemMailbox(settings: Settings, sender: SeenSender | undefined): Finding {
  const { POSTHORN_SYSTEM_MAILBOX: setting, POSTHORN_ROUTE: route } = settings
  if (sender === undefined)
    return setting === undefined
      ? warn(
          `${what} are not sent: there is no mailbox for them. The first start makes one, unless a workspace is called Posthorn already; then set POSTHORN_SYSTEM_MAILBOX (${page}).`,
        )
      : fail(
          `${what} are not sent: POSTHORN_SYSTEM_MAILBOX names ${setting}, and there is no such mailbox, or more than one, that may send (${page}).`,
        )
  const { address, mailbox, workspace, domain } = sender
  const named = /^\w[\w.-]*$/.test(workspace.name) ? workspace.name : workspace.id
  const from = `${what} come from ${address}`
  if (workspace.status === 'blocked' || mailbox === 'disabled') {
    const mend =
      mailbox === 'disabled'
        ? 'the mailbox is disabled: posthorn mailbox set ID --status active'
        : `its workspace is blocked: posthorn workspace set ${named} --status active`
    return fail(`${from}, and none is sent, because ${mend}`)
  }
  const cannot = domain.status === 'pending' || domain.status === 'failed'
  if (cannot)
    return fail(
      `${from}, and none is sent, because ${domain.name} is ${domain.status}: posthorn domain check ${named} ${domain.name} says which record is wrong.`,
    )
  if ((workspace.route ?? route.kind) === 'sandbox')
    return skipped(`${from}; on the route sandbox that may be anybody.`)
  if (domain.vouched && !domain.dkimSeen)
    return nobodys.test(domain.name)
      ? fail(
          `${from}, a name that nobody can have, and that no receiver can verify: expect them to be refused, or to go to spam. Give them a domain of yours: posthorn domain add ${named} mail.example.org; publish its records; posthorn domain check ${named} mail.example.org; posthorn mailbox add ${named} no-reply@mail.example.org; then set POSTHORN_SYSTEM_MAILBOX to that address, and restart (${page}).`,
        )
      : warn(
          `${from}, and ${domain.name} is verified by the word of an operator or the first start alone: no look at the DNS has found its DKIM record, so receivers cannot verify them. Publish what posthorn domain list ${named} shows; posthorn domain check ${named} ${domain.name}; and when it finds all, posthorn domain unvouch ${named} ${domain.name} (${page}).`,
        )
  if (domain.status === 'degraded')
    return warn(
      `${from}, and ${domain.name} is degraded: 72 hours after it broke none is sent any more. posthorn domain check ${named} ${domain.name} says which record is wrong.`,
    )
  return ok(`${from}.`)
}
