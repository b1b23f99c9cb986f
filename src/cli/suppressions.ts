// `posthorn suppression`.
import type { Command } from 'commander'
import { limits } from '../config.ts'
import {
  addSuppression,
  exportSuppressions,
  findWorkspace,
  importSuppressions,
  listSuppressions,
  removeSuppression,
  undoRule,
} from '../workspace/workspace.ts'
import { readGiven } from './arguments.ts'
import { facts, table } from './print.ts'
import type { Desk } from './tools.ts'

export function suppressionCommands(program: Command, desk: Desk): void {
  const group = program.command('suppression').description('recipients that a workspace does not write to')
  const command = (name: string, description: string): Command =>
    group.command(name).description(description).argument('<workspace>', 'its id or exact name')

  command('add', 'suppress a recipient')
    .argument('<address>')
    .action((workspace: string, address: string) =>
      desk.withExisting(async ({ db, vault, actor }) => {
        const { id } = await findWorkspace(db, vault, workspace)
        const added = await addSuppression(db, id, address, actor)
        desk.show(added, () => facts({ recipient: added.recipient, reason: added.reason, since: added.createdAt }))
      }),
    )
  command('remove', 'write to a recipient again')
    .argument('<address>')
    .action((workspace: string, address: string) =>
      desk.withExisting(async ({ db, vault, actor }) => {
        const { id } = await findWorkspace(db, vault, workspace)
        const removed = await removeSuppression(db, id, address, actor)
        desk.show(removed, () => `${removed.recipient} is no longer suppressed.`)
      }),
    )
  command('list', 'list suppressed recipients').action((workspace: string) =>
    desk.withExisting(async ({ db, vault }) => {
      const { id } = await findWorkspace(db, vault, workspace)
      const all = await gather(listSuppressions(db, id))
      const rows = () =>
        all.map((each) => [each.recipient, each.reason, each.createdAt, each.rule ?? each.createdBy, each.evidence])
      const heads = ['RECIPIENT', 'REASON', 'SINCE', 'BY', 'EVIDENCE']
      desk.show(all, () => table(heads, rows(), 'Nobody is suppressed.'))
    }),
  )
  command(
    'import',
    'suppress everybody in a file: CSV with a head line, as `suppression export` writes it, or one address a line',
  )
    .argument('<file>', '- for standard input')
    .action((workspace: string, file: string) =>
      desk.withExisting(async ({ db, vault, actor }) => {
        const { id } = await findWorkspace(db, vault, workspace)
        const result = await importSuppressions(
          db,
          id,
          (await readGiven(file, limits.suppressionImportBytesMax)).toString('utf8'),
          actor,
        )
        desk.show(result, () => `${result.added} added, ${result.alreadyThere} already there.`)
      }),
    )
  command('undo', 'take back everything that one rule did in a time range')
    .requiredOption('--rule <rule>', 'as `suppression list` shows it')
    .requiredOption('--since <time>', '2026-11-01, or 2026-11-01T08:30:00Z')
    .option('--until <time>', 'instead of now')
    .action((workspace: string, range: { rule: string; since: string; until?: string }) =>
      desk.withExisting(async ({ db, vault, actor }) => {
        const { id } = await findWorkspace(db, vault, workspace)
        const result = await undoRule(db, id, range, actor)
        desk.show(result, () => `${result.removed} recipients are no longer suppressed.`)
      }),
    )
  command('export', 'write all suppressed recipients as CSV').action((workspace: string) =>
    desk.withExisting(async ({ db, vault }) => {
      const { id } = await findWorkspace(db, vault, workspace)
      if (desk.json) desk.show(await gather(listSuppressions(db, id)), () => '')
      else for await (const line of exportSuppressions(db, id)) desk.write(line)
    }),
  )
}

async function gather<T>(values: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const value of values) all.push(value)
  return all
}
