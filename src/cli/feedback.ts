// `posthorn feedback`: what was reported and matched nothing, and the keys of return paths. For operators.
import type { Command } from 'commander'
import { findUnmatchedFeedback, pageUnmatchedFeedback, rotateReturnPath } from '../feedback/feedback.ts'
import { Mistake } from '../workspace/workspace.ts'
import { commandsOf, positive } from './arguments.ts'
import { facts, table } from './print.ts'
import type { Cli } from './tools.ts'

export function feedbackCommands(program: Command, cli: Cli): void {
  const { command } = commandsOf(program, 'feedback', 'what receiving providers said')

  command('list', 'list the latest feedback that had no effect')
    .option('--limit <mails>', 'how many', positive, 50)
    .action(({ limit }: { limit: number }) =>
      cli.withExisting(async ({ db }) => {
        const { items: all } = await pageUnmatchedFeedback(db, limit)
        const rows = () => all.map((u) => [u.id, u.receivedAt, u.reason, u.source, u.sender, u.addressee, u.sizeBytes])
        const heads = ['ID', 'RECEIVED', 'REASON', 'SOURCE', 'SENDER', 'ADDRESSEE', 'BYTES']
        cli.show(all, () => table(heads, rows(), 'No feedback is unmatched.', limit))
      }),
    )
  command('show', 'show unmatched feedback, with the beginning of its mail')
    .argument('<id>')
    .action((id: string) =>
      cli.withExisting(async ({ db }) => {
        const found = await findUnmatchedFeedback(db, id)
        if (found === undefined) throw new Mistake(`There is no unmatched feedback "${id}"; it is kept 30 days.`)
        const { content, facts: more, ...rest } = found
        cli.show(
          found,
          () => `${facts({ ...rest, facts: JSON.stringify(more) })}\n\n${content.replaceAll('\r\n', '\n')}`,
        )
      }),
    )
  command('rotate-key', 'sign the return paths of messages to come with a new key').action(() =>
    cli.withExisting(async ({ db, actor }) => {
      const rotated = await rotateReturnPath(db, actor)
      cli.show(rotated, () => `Messages accepted from ${rotated.since.toISOString()} on get the key ${rotated.key}.`)
    }),
  )
}
