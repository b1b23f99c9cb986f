// `posthorn message refused`: what to tell somebody whose mail never became a message.
import { Option } from 'commander'
import { listRefusedOf, type RefusalFilter } from '../workspace/workspace.ts'
import { instant, positive, type MakeCommand } from './arguments.ts'
import { table } from './print.ts'
import type { Cli } from './tools.ts'

interface Given extends RefusalFilter {
  readonly limit: number
}

export function refusedCommand(make: MakeCommand, cli: Cli): void {
  make('refused', 'list the latest submissions that were refused and never became a message')
    .option('--limit <refusals>', 'how many', positive, 50)
    .option('--code <code>', 'only with this code, such as recipient_suppressed')
    .addOption(new Option('--source <source>', 'only those over HTTP, or over SMTP').choices(['rest', 'smtp']))
    .option('--from <time>', 'only from this time on', instant)
    .option('--to <time>', 'only before this time', instant)
    .action((workspace: string, { limit, ...filter }: Given) =>
      cli.inWorkspace(workspace, async ({ db }, { workspaceId: id }) => {
        const all = await listRefusedOf(db, id, limit, filter)
        const rows = () =>
          all.map((each) => {
            const { at, source, code, sender, recipientDomain, callerId, requestId, field, error } = each
            return [at, source, code, sender, recipientDomain, callerId, requestId, field, error]
          })
        const none = Object.keys(filter).length === 0 ? 'Nothing was refused' : 'No such submission was refused'
        const heads = ['TIME', 'SOURCE', 'CODE', 'SENDER', 'RECIPIENT AT', 'KEY OR LOGIN', 'REQUEST', 'FIELD', 'TOLD']
        cli.show(all, () => table(heads, rows(), `${none} in the last 30 days.`, limit))
      }),
    )
}
