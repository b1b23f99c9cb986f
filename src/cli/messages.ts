// `posthorn message`.
import { Option, type Command } from 'commander'
import { deliveryStatuses, processingStatuses } from '../contract/message.ts'
import { findWorkspace, listMessagesOf, listRefusedOf, showMessage } from '../workspace/workspace.ts'
import type { MessageWish, Timeline } from '../workspace/workspace.ts'
import { idOf, instant, positive } from './arguments.ts'
import { facts, table } from './print.ts'
import type { Desk } from './tools.ts'

interface ListWish extends Omit<MessageWish, 'mailboxId' | 'before' | 'most'> {
  readonly mailbox?: string
  readonly limit: number
}

export function messageCommands(program: Command, desk: Desk): void {
  const group = program.command('message').description('what was sent, and what happened to it')

  group
    .command('show')
    .description('show a message with everything that happened to it')
    .argument('<id>', 'the id of the message')
    .action((id: string) =>
      desk.withExisting(async ({ db }) => {
        const timeline = await showMessage(db, id)
        desk.show(timeline, () => describe(timeline))
      }),
    )
  group
    .command('list')
    .description('list the latest messages of a workspace, or find some: what is given must all be true of them')
    .argument('<workspace>', 'its id or exact name')
    .addOption(new Option('--status <status>', 'what we did with it').choices(processingStatuses))
    .addOption(new Option('--delivery-status <status>', 'what its provider reported').choices(deliveryStatuses))
    .option('--mailbox <id>', 'sent from this mailbox', idOf('mailbox'))
    .option('--recipient <address>', 'to exactly this address, in any case')
    .option('--text <words>', 'part of the subject or the recipient, in any case')
    .option('--from <time>', 'accepted at this time or later, such as 2027-01-31T00:00:00Z', instant)
    .option('--to <time>', 'accepted before this time', instant)
    .option('--limit <messages>', 'how many', positive, 50)
    .action((workspace: string, { limit, mailbox, ...wish }: ListWish) =>
      desk.withExisting(async ({ db, vault }) => {
        const { id } = await findWorkspace(db, vault, workspace)
        const filter = { ...wish, ...(mailbox !== undefined && { mailboxId: mailbox }) }
        const all = await listMessagesOf(db, id, limit, filter)
        const none =
          Object.keys(filter).length === 0 ? 'The workspace has no message yet.' : 'There is no such message.'
        const rows = () => all.map((m) => [m.id, m.createdAt, m.status, m.deliveryStatus, m.recipient, m.subject])
        const heads = ['ID', 'CREATED', 'STATUS', 'DELIVERY', 'RECIPIENT', 'SUBJECT']
        desk.show(all, () => table(heads, rows(), none))
      }),
    )
  group
    .command('refused')
    .description('list the latest submissions that were refused and never became a message')
    .argument('<workspace>', 'its id or exact name')
    .option('--limit <refusals>', 'how many', positive, 50)
    .action((workspace: string, { limit }: { limit: number }) =>
      desk.withExisting(async ({ db, vault }) => {
        const { id } = await findWorkspace(db, vault, workspace)
        const all = await listRefusedOf(db, id, limit)
        const rows = () => all.map((each) => [each.at, each.source, each.code, each.recipientDomain])
        desk.show(all, () =>
          table(['TIME', 'SOURCE', 'CODE', 'RECIPIENT AT'], rows(), 'Nothing was refused in the last 30 days.'),
        )
      }),
    )
}

function describe(message: Timeline): string {
  const { events, attempts, reports, queue, scan } = message
  const record = facts({
    id: message.id,
    workspace: message.workspaceId,
    status: message.status,
    delivery: message.deliveryStatus,
    from: message.sender,
    to: message.recipient,
    subject: message.subject,
    created: message.createdAt,
    expires: message.expiresAt,
    'provider id': message.providerMessageId,
    error: message.errorMessage,
    scan: scan === undefined ? undefined : text(scan),
    'next try': queue?.status === 'sending' ? undefined : queue?.dueAt,
  })
  const parts = [
    ['EVENT', events.map((each) => [each.sequence, each.occurredAt, each.type, text(each.facts)])],
    ['ATTEMPT', attempts.map((each) => [each.epoch, each.endedAt, each.outcome, text(each.facts)])],
    ['WEBHOOK', events.flatMap((each) => postsOf(each))],
    ['REPORT', reports.map((each, at) => [at + 1, each.createdAt, each.eventType, each.detail])],
  ] as const
  const shown = parts
    .filter(([, rows]) => rows.length > 0)
    .map(([title, rows]) => table([title, 'TIME', 'WHAT', 'FACTS'], rows, ''))
  return [record, ...shown].join('\n\n')
}

/** The posts of an event, and when the next is due. */
function postsOf({ sequence, type, webhook }: Timeline['events'][number]): (string | number | Date | undefined)[][] {
  if (webhook === undefined) return []
  const due = webhook.nextAttemptAt
  return [
    ...webhook.attempts.map(({ attempt, endedAt, delivered, status, trouble, durationMs }) => [
      sequence,
      endedAt,
      type,
      `try ${attempt} ${delivered ? 'delivered' : 'failed'}: ${status ?? trouble ?? ''}${durationMs === undefined ? '' : `, ${durationMs} ms`}`,
    ]),
    ...(due === undefined ? [] : [[sequence, due, type, 'next try']]),
  ]
}

const text = (value: object | undefined): string => (value === undefined ? '' : JSON.stringify(value))
