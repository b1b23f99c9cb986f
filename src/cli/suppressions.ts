// `posthorn suppression`.
import { Option, type Command } from 'commander'
import { limits } from '../config.ts'
import {
  addSuppression,
  exportSuppressions,
  importSuppressions,
  listSuppressions,
  removeSuppression,
  suppressionReasons,
  undoRule,
  type Imported,
  type ImportWish,
  type Suppression,
} from '../workspace/workspace.ts'
import { readGiven, commandsOf } from './arguments.ts'
import { facts, longTable } from './print.ts'
import type { Cli } from './tools.ts'

export function suppressionCommands(program: Command, cli: Cli): void {
  const { ofWorkspace } = commandsOf(program, 'suppression', 'recipients that a workspace does not write to')

  ofWorkspace('add', 'suppress a recipient')
    .argument('<address>')
    .action((workspace: string, address: string) =>
      cli.inWorkspace(workspace, async ({ db }, { workspaceId: id, actor }) => {
        const added = await addSuppression(db, id, address, actor)
        cli.show(added, () => facts({ recipient: added.recipient, reason: added.reason, since: added.createdAt }))
      }),
    )
  ofWorkspace('remove', 'write to a recipient again')
    .argument('<address>')
    .action((workspace: string, address: string) =>
      cli.inWorkspace(workspace, async ({ db }, { workspaceId: id, actor }) => {
        const removed = await removeSuppression(db, id, address, actor)
        cli.show(removed, () => `${removed.recipient} is no longer suppressed.`)
      }),
    )
  ofWorkspace('list', 'list suppressed recipients').action((workspace: string) =>
    cli.inWorkspace(workspace, async ({ db }, { workspaceId: id }) => {
      const heads = ['RECIPIENT', 'REASON', 'SINCE', 'BY', 'EVIDENCE']
      await cli.showEach(listSuppressions(db, id), (all) => longTable(heads, rowsOf(all), 'Nobody is suppressed.'))
    }),
  )
  ofWorkspace(
    'import',
    'suppress everybody in a file: CSV as `suppression export` or another service writes it (docs/moving.md), or one address a line',
  )
    .argument('<file>', '- for standard input')
    .addOption(
      new Option('--reason <reason>', 'of the lines that tell none; what else they say of it is kept as evidence')
        .choices(suppressionReasons)
        .default(undefined, 'manual'),
    )
    .option('--dry-run', 'say what would happen, and write nothing')
    .action((workspace: string, file: string, wish: ImportWish) =>
      cli.inWorkspace(workspace, async ({ db }, { workspaceId: id, actor }) => {
        const text = (await readGiven(file, limits.suppressionImportBytesMax, 'split it')).toString('utf8')
        const result = await importSuppressions(db, id, text, actor, wish)
        cli.show(result, () => describeImport(result, wish))
      }),
    )
  ofWorkspace('undo', 'take back everything that one rule did in a time range')
    .requiredOption('--rule <rule>', 'as `suppression list` shows it')
    .requiredOption('--since <time>', '2026-11-01, or 2026-11-01T08:30:00Z')
    .option('--until <time>', 'instead of now')
    .action((workspace: string, range: { rule: string; since: string; until?: string }) =>
      cli.inWorkspace(workspace, async ({ db }, { workspaceId: id, actor }) => {
        const result = await undoRule(db, id, range, actor)
        cli.show(result, () => `${result.removed} recipients are no longer suppressed.`)
      }),
    )
  ofWorkspace('export', 'write all suppressed recipients as CSV').action((workspace: string) =>
    cli.inWorkspace(workspace, async ({ db }, { workspaceId: id }) => {
      if (cli.json) await cli.showEach(listSuppressions(db, id), async function* () {})
      else for await (const line of exportSuppressions(db, id)) cli.write(line)
    }),
  )
}

async function* rowsOf(all: AsyncIterable<Suppression>) {
  for await (const each of all)
    yield [each.recipient, each.reason, each.createdAt, each.rule ?? each.createdBy, each.evidence]
}

function describeImport({ added, alreadyThere, reasons, ignoredColumns }: Imported, { reason, dryRun }: ImportWish) {
  const lines = suppressionReasons.map((each) => `${each} ${reasons[each]}`).join(', ')
  const told = reasons.hard_bounce + reasons.complaint > 0 || reason !== undefined || reasons.manual === 0
  return [
    dryRun === true
      ? `${added} would be added, ${alreadyThere} are already there. Nothing was written.`
      : `${added} added, ${alreadyThere} already there.`,
    `Lines by reason: ${lines}.`,
    ...(told
      ? []
      : ['Where the file does not tell why they were suppressed, --reason hard_bounce (or complaint) does.']),
    ...(ignoredColumns.length > 0 ? [`Columns that were not read: ${ignoredColumns.join(', ')}.`] : []),
  ].join('\n')
}
