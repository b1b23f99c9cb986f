// Removing a workspace, with all that is its own (docs/decisions/0067). Nothing that was accepted and is not final goes with it: it is waited for, or
// cancelled where the operator says so and nobody can have sent it. From the first commit on nothing gets in any more; what follows is carried on by the
// same command, or by housekeeping.
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { isUnknownServer, readStops } from '../store/fence.ts'
import {
  beginRemoval,
  cancelWaiting,
  carryOnRemoval,
  readRemovalView,
  readUnfinished,
  type RemovalView,
  type Unfinished,
} from '../store/removal.ts'
import { workspaceOfMailbox } from '../store/mailboxes.ts'
import { updateWorkspace } from '../store/workspaces.ts'
import { audited } from './by.ts'
import { Mistake } from './mistake.ts'
import { findSender, readSystemMailbox } from './notices.ts'

/** One as it was found. */
export interface Removable {
  readonly id: WorkspaceId
  readonly name: string
  readonly status: 'active' | 'blocked'
  readonly removingSince?: Date
}
export interface RemovalWish {
  /** The operator has seen what goes, or does not care to. */
  readonly isSure: boolean
  /** Blocks it, and fails what waits. */
  readonly cancelsQueued: boolean
}
export interface Removed {
  readonly id: string
  readonly name: string
  /** Messages that waited. */
  readonly cancelled: number
  /** Of all tables, by this command. */
  readonly rows: number
}

/** For whoever waits: that it has begun, and every now and then how far it is. */
export interface RemovalWords {
  readonly told?: (words: string) => void
  readonly tell?: (words: () => string) => void
}

export async function removeWorkspace(
  tools: { readonly db: Db; readonly systemMailbox: string | undefined },
  actor: string,
  workspace: Removable,
  { isSure, cancelsQueued }: RemovalWish,
  { told, tell }: RemovalWords = {},
): Promise<Removed> {
  const { db } = tools
  const { id, name } = workspace
  let cancelled = 0
  if (workspace.removingSince === undefined) {
    await refuseSystems(tools, workspace)
    if (!isSure) throw new Mistake(question(workspace, await readRemovalView(db, id), await readUnfinished(db, id)))
    if (cancelsQueued) cancelled = await cancelQueued(db, actor, workspace, tell)
    while (!(await beginRemoval(db, id, actor))) {
      const unfinished = await readUnfinished(db, id)
      // What kept it a moment ago may be final by now.
      if (sum(unfinished) > 0)
        throw new Mistake(whyNot(workspace, unfinished, cancelled, cancelsQueued), { code: 'conflict' })
    }
  }
  told?.(`Removing "${name}". Nothing gets in any more; if this ends before its time, the service carries it on.`)
  let rows = 0
  await carryOnRemoval(db, id, actor, {
    told: (more) => {
      rows += more
      tell?.(() => `${rows} rows so far`)
    },
  })
  return { id, name, cancelled, rows }
}

/** As its mailbox (0057). */
async function refuseSystems(
  { db, systemMailbox }: { readonly db: Db; readonly systemMailbox: string | undefined },
  { id, name }: Removable,
): Promise<void> {
  const made = await readSystemMailbox(db)
  const owners = [(await findSender(db, systemMailbox))?.workspaceId, made && (await workspaceOfMailbox(db, made))]
  if (owners.includes(id))
    throw new Mistake(
      `The installation sends its own mail, such as password resets, from a mailbox of "${name}"; it stays.`,
      {
        code: 'conflict',
      },
    )
}

async function cancelQueued(
  db: Db,
  actor: string,
  { id, name, status }: Removable,
  tell: RemovalWords['tell'],
): Promise<number> {
  const stop = (await readStops(db.rows)).find(({ kind }) => kind !== 'drain')
  if (stop !== undefined)
    throw new Mistake(
      `Delivery is stopped (${stop.kind}: ${stop.reason}), and what waits may have been sent already: \`posthorn recover\` decides that first. Nothing of "${name}" was cancelled or removed.`,
      { code: 'conflict' },
    )
  if (await isUnknownServer(db))
    throw new Mistake(
      `Another database server has taken over, and no node has compared what it delivered with it yet, so what waits may have been sent already. Start the service, and give the same command again. Nothing of "${name}" was cancelled or removed.`,
      { code: 'conflict' },
    )
  const block = { status: 'blocked' }
  if (status === 'active')
    await audited(
      db,
      { actor, workspaceId: id },
      'workspace.changed',
      (tx) => updateWorkspace(tx, id, block),
      () => ({ target: id, facts: block }),
    )
  let cancelled = 0
  for (let many: number; (many = await cancelWaiting(db, id)) > 0;) {
    cancelled += many
    tell?.(() => `messages cancelled so far: ${cancelled}`)
  }
  return cancelled
}

const counted = (many: number, thing: string): string =>
  `${many >= limits.removalMessagesCounted ? `${many} or more` : many} ${many === 1 ? thing : `${thing}s`}`

const sum = ({ waiting, sending, armed }: Unfinished): number => waiting + sending + armed

function question({ id, name }: Removable, view: RemovalView, unfinished: Unfinished): string {
  const { messages, webhooks, domains, logins } = view
  const open = sum(unfinished)
  return [
    `Nothing was removed: give --yes to remove "${name}" (${id}) for good, with ${counted(messages, 'message')}`,
    domains.length === 0 ? '' : `, ${domains.length === 1 ? 'the domain' : 'the domains'} ${domains.join(', ')}`,
    logins.length === 0
      ? ''
      : ` and the ${logins.length === 1 ? 'login' : 'logins'} of ${logins.join(', ')}, who ${logins.length === 1 ? 'belongs' : 'belong'} to no other workspace`,
    webhooks === 0
      ? ''
      : `; ${counted(webhooks, 'webhook')} that ${webhooks === 1 ? 'waits' : 'wait'} to be posted would go unposted`,
    open === 0
      ? ''
      : `; but ${counted(open, 'message')} of it ${open === 1 ? 'is' : 'are'} not final yet, and must be first`,
    '.',
  ].join('')
}

function whyNot({ id, name }: Removable, unfinished: Unfinished, cancelled: number, wasAsked: boolean): string {
  const { waiting, sending, armed } = unfinished
  const parts = [
    waiting > 0 && `${waiting} ${waiting === 1 ? 'waits' : 'wait'} in the queue`,
    sending > 0 && `${sending} ${sending === 1 ? 'is' : 'are'} about to be sent`,
    armed > 0 && `${armed} may be with the receiver already, whose answer decides`,
  ].filter((part) => part !== false)
  const many = sum(unfinished)
  const head = `"${name}" was not removed: ${counted(many, 'message')} of it ${many === 1 ? 'is' : 'are'} not final (${parts.join('; ')}).`
  if (wasAsked)
    return `${head} It is blocked, and ${counted(cancelled, 'message')} ${cancelled === 1 ? 'was' : 'were'} cancelled: give the same command again in a minute.`
  return `${head} Wait until they are; or block it (\`posthorn workspace set ${id} --status blocked\`), which fails each as it comes due; or give --cancel-queued, which blocks it and fails at once what waits.`
}
