// `posthorn feed`: the event feeds of relay providers.
import { Argument, type Command } from 'commander'
import { isUuid } from '../base/uuid.ts'
import { addFeed, listFeeds, removeFeed, type Feed } from '../feeds/feeds.ts'
import type { Db } from '../store/database.ts'
import { feedProviders } from '../store/feeds.ts'
import { audited, findWorkspace, Mistake } from '../workspace/workspace.ts'
import { commandsOf, readSecret } from './arguments.ts'
import { facts, table } from './print.ts'
import type { Cli } from './tools.ts'

interface AddOptions {
  readonly workspace?: string
  readonly topic?: string
  readonly keyFile?: string
}

export function feedCommands(program: Command, cli: Cli): void {
  const { command } = commandsOf(program, 'feed', 'events that relay providers post to us (docs/feeds.md)')

  command('add', 'make a feed and show where the provider is to post')
    .addArgument(new Argument('<provider>', 'whose events').choices(feedProviders))
    .option('--workspace <workspace>', "speaks for this workspace's own route instead of the installation's")
    .option('--topic <arn>', 'ses: the SNS topic')
    .option('--key-file <file>', 'mailgun: webhook signing key; sendgrid: public key; - reads standard input')
    .action((provider: string, options: AddOptions, command: Command) =>
      cli.with(async (tools) => {
        const workspace =
          options.workspace === undefined
            ? {}
            : { workspace: (await findWorkspace(tools.db, tools.vault, options.workspace)).id }
        const key = options.keyFile === undefined ? undefined : await readSecret(options.keyFile)
        const add = async (db: Db) => {
          const added = await addFeed({ ...tools, db }, { provider, ...workspace, topic: options.topic, key })
          if (typeof added === 'string') return command.error(`error: ${added}`)
          return added
        }
        const added = await audited(tools.db, tools, 'feed.added', add, told)
        const isReached = added.url.startsWith('https:')
        cli.show(added, () => `${facts({ ...added })}${isReached ? '' : `\n\n${notReached(tools.publicUrl)}`}`)
      }),
    )
  command('list', 'list all feeds').action(() =>
    cli.withExisting(async (tools) => {
      const all = await listFeeds(tools)
      const rows = () => all.map((each) => [each.id, each.provider, each.workspace ?? 'installation', each.url])
      cli.show(all, () => table(['ID', 'PROVIDER', 'ROUTE OF', 'URL'], rows(), 'There is no feed.'))
    }),
  )
  command('remove', 'receive nothing more from a feed')
    .argument('<id>')
    .action((id: string) =>
      cli.withExisting(async (tools) => {
        const remove = async (db: Db) => {
          const removed = isUuid(id) ? await removeFeed({ ...tools, db }, id) : undefined
          if (removed === undefined)
            throw new Mistake(`There is no feed "${id}"; \`posthorn feed list\` shows them all.`)
          return removed
        }
        const removed = await audited(tools.db, tools, 'feed.removed', remove, told)
        cli.show(removed, () => `The feed of ${removed.provider} is removed.`)
      }),
    )
}

/** Somebody would set it up at the provider as it stands, and hear of nothing ever after. */
const notReached = (publicUrl: string): string =>
  `The provider reaches only what is public, over HTTPS. Set POSTHORN_PUBLIC_URL, for the service and where commands run: then that stands in place of ${publicUrl}.`

/** The URL of a feed may carry its secret. */
function told({ id, provider, workspace }: Feed) {
  return { target: id, facts: { provider, ...(workspace !== null && { workspace }) } }
}
