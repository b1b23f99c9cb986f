// `posthorn message`.
import { Option, type Command } from 'commander'
import { deliveryStatuses, processingStatuses } from '../contract/words.ts'
import { copiedMessageId } from '../mail/queue-id.ts'
import { listMessagesOf, showMessage } from '../workspace/workspace.ts'
import type { MessageWish } from '../workspace/workspace.ts'
import { idOf, instant, positive, commandsOf } from './arguments.ts'
import { table } from './print.ts'
import { refusedCommand } from './refused.ts'
import { sendAgainCommand } from './send-again.ts'
import { describeMessage } from './timeline.ts'
import type { Cli } from './tools.ts'

type Metadata = Pick<MessageWish, 'metadataName' | 'metadataValue'>
interface ListWish extends Omit<MessageWish, 'mailboxId' | 'providerMessageId' | keyof Metadata | 'before' | 'most'> {
  readonly mailbox?: string
  readonly providerId?: string
  readonly metadata?: Metadata
  readonly limit: number
}

export function messageCommands(program: Command, cli: Cli): void {
  const { command, ofWorkspace } = commandsOf(program, 'message', 'what was sent, and what happened to it')

  command('show', 'show a message with everything that happened to it')
    .argument('<id>', 'the id of the message')
    .action((id: string) =>
      cli.withExisting(async ({ db }) => {
        const timeline = await showMessage(db, id)
        cli.show(timeline, () => describeMessage(timeline))
      }),
    )
  ofWorkspace('list', 'list the latest messages of a workspace, or find some: what is given must all be true of them')
    .addOption(new Option('--status <status>', 'what we did with it').choices(processingStatuses))
    .addOption(new Option('--delivery-status <status>', 'what its provider reported').choices(deliveryStatuses))
    .option('--mailbox <id>', 'sent from this mailbox', idOf('mailbox'))
    .option('--recipient <address>', 'to exactly this address, in any case')
    .option(
      '--text <words>',
      'part of the subject or the recipient, or the whole of a value of the metadata or of their id, in any case',
    )
    .option('--provider-id <id>', 'the id that the receiving server or relay gave, or its reply with the id in it')
    .option('--metadata <name=value>', 'with exactly this in its metadata; without a name: under any', metadataOf)
    .option('--from <time>', 'accepted at this time or later, such as 2027-01-31T00:00:00Z', instant)
    .option('--to <time>', 'accepted before this time', instant)
    .option('--limit <messages>', 'how many', positive, 50)
    .action((workspace: string, { limit, mailbox, providerId, metadata, ...wish }: ListWish) =>
      cli.inWorkspace(workspace, async ({ db }, { workspaceId: id }) => {
        const filter = {
          ...wish,
          ...metadata,
          ...(mailbox !== undefined && { mailboxId: mailbox }),
          ...(providerId !== undefined && { providerMessageId: copiedMessageId(providerId) ?? providerId.trim() }),
        }
        const all = await listMessagesOf(db, id, limit, filter)
        const none =
          Object.keys(filter).length === 0 ? 'The workspace has no message yet.' : 'There is no such message.'
        const rows = () => all.map((m) => [m.id, m.createdAt, m.status, m.deliveryStatus, m.recipient, m.subject])
        const heads = ['ID', 'CREATED', 'STATUS', 'DELIVERY', 'RECIPIENT', 'SUBJECT']
        cli.show(all, () => table(heads, rows(), none, limit))
      }),
    )
  sendAgainCommand(command, cli)
  refusedCommand(ofWorkspace, cli)
}

/** What stands before the first `=` is the name. */
function metadataOf(text: string): Metadata {
  const at = text.indexOf('=')
  return at < 0
    ? { metadataValue: text }
    : { metadataValue: text.slice(at + 1), ...(at > 0 && { metadataName: text.slice(0, at) }) }
}
