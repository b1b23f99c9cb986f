// `posthorn workspace` and `posthorn plan`.
import { InvalidArgumentError, Option, type Command } from 'commander'
import type { Settings } from '../config.ts'
import type { PlanChanges } from '../store/plans.ts'
import {
  changeWorkspaceAsOperator,
  createWorkspaceAsOperator,
  findAnyWorkspace,
  listAllWorkspaces,
  listPlans,
  removePlanAsOperator,
  removeWorkspace,
  setPlanAsOperator,
} from '../workspace/workspace.ts'
import type { Plan, Workspace, WorkspaceChanges } from '../workspace/workspace.ts'
import { readSecret, commandsOf } from './arguments.ts'
import { facts, table } from './print.ts'
import { progress } from './progress.ts'
import type { Cli } from './tools.ts'

export function workspaceCommands(program: Command, cli: Cli): void {
  const { command, ofWorkspace } = commandsOf(
    program,
    'workspace',
    'who sends: make, list, show, change and remove workspaces',
  )

  command('create', 'make a workspace')
    .requiredOption('--name <name>', 'its name, unlike any other')
    .option('--plan <plan>', 'its plan', 'unlimited')
    .action((options: { name: string; plan: string }) =>
      cli.with(async (tools) => {
        const made = await createWorkspaceAsOperator(tools, tools.actor, options.name, options.plan)
        cli.show(made, () => describe(made, tools.settings))
      }),
    )
  command('list', 'list all workspaces').action(() =>
    cli.withExisting(async ({ db, vault }) => {
      const all = await listAllWorkspaces(db, vault)
      const more = all.some(({ ownName }) => ownName !== undefined)
      const rows = () =>
        all.map((each) => {
          const own = more ? [each.ownName] : []
          return [each.id, each.name, statusOf(each), each.plan, each.route, ...own]
        })
      const heads = ['ID', 'NAME', 'STATUS', 'PLAN', 'ROUTE', ...(more ? ['ITS MEMBERS SAY'] : [])]
      cli.show(all, () => table(heads, rows(), 'There is no workspace yet.'))
    }),
  )
  ofWorkspace('show', 'show one workspace').action((name: string) =>
    cli.withExisting(async ({ db, vault, settings }) => {
      const found = await findAnyWorkspace(db, vault, name)
      cli.show(found, () => describe(found, settings))
    }),
  )
  ofWorkspace('set', 'change a workspace')
    .option('--name <name>', 'another name for the operators; what its members call it stays')
    .option('--plan <plan>', 'another plan')
    .addOption(new Option('--status <status>', 'block it, or let it send again').choices(['active', 'blocked']))
    .option(
      '--route <route>',
      'sandbox, mx, a relay URL (- reads it from standard input), or default for the route of the installation',
    )
    .addOption(
      new Option('--keep-content <flag>', 'keep body and attachments after a message is final').choices([
        'true',
        'false',
      ]),
    )
    .action((name: string, wish: WorkspaceChanges & { keepContent?: string }, command: Command) => {
      if (Object.keys(wish).length === 0)
        command.error('error: give --name, --plan, --status, --route or --keep-content')
      const { keepContent, ...rest } = wish
      return cli.inWorkspace(name, async (tools, { workspaceId: id }) => {
        const changes = {
          ...rest,
          ...(keepContent !== undefined && { keepsContent: keepContent === 'true' }),
          ...(rest.route === '-' && { route: await readSecret('-') }),
        }
        const changed = await changeWorkspaceAsOperator(tools, tools.actor, id, changes)
        cli.show(changed, () => describe(changed, tools.settings))
      })
    })
  ofWorkspace(
    'remove',
    'remove a workspace for good, with its mail, domains, keys and log, and the logins of people who belong to no other; refused while mail of it is not final',
  )
    .option('--yes', 'remove it; without this, it is only told what would go', false)
    .option(
      '--cancel-queued',
      'before that, block it and fail what waits in the queue, which is then never sent',
      false,
    )
    .action((name: string, { yes, cancelQueued }: { yes: boolean; cancelQueued: boolean }) =>
      cli.withExisting(async ({ db, vault, settings, actor }) => {
        const tools = { db, systemMailbox: settings.POSTHORN_SYSTEM_MAILBOX }
        const found = await findAnyWorkspace(db, vault, name)
        const told = (words: string): void => void (cli.json || process.stderr.write(`posthorn: ${words}\n`))
        const wish = { isSure: yes, cancelsQueued: cancelQueued }
        const removed = await removeWorkspace(tools, actor, found, wish, { told, tell: progress(cli) })
        cli.show(removed, () => {
          const cancelled = removed.cancelled > 0 ? `, ${removed.cancelled} messages cancelled` : ''
          return `Removed: ${removed.name} (${removed.id}), ${removed.rows} rows${cancelled}.`
        })
      }),
    )
}

export function planCommands(program: Command, cli: Cli): void {
  const { command } = commandsOf(program, 'plan', 'limits of sending: make, change, list and remove plans')

  command('set', 'make or change a plan; what is not given stays, and has no limit in a new plan')
    .argument('<name>')
    .addOption(new Option('--api-sending <flag>', 'may it send at all').choices(['true', 'false']))
    .option('--hourly <messages>', 'in the trailing 60 minutes, or none', limit)
    .option('--daily <messages>', 'in a day (UTC), or none', limit)
    .option('--monthly <messages>', 'in a month (UTC), or none', limit)
    .option('--upgrade-url <url>', 'where to get a bigger plan')
    .action((name: string, { apiSending, ...given }: Record<string, string | number>) =>
      cli.with(async (tools) => {
        const limits = Object.entries(given).map(([option, value]) => [option, value === 'none' ? null : value])
        const changes: PlanChanges = {
          ...Object.fromEntries(limits),
          ...(apiSending !== undefined && { apiSending: apiSending === 'true' }),
        }
        const plan = await setPlanAsOperator(tools, tools.actor, name, changes)
        cli.show(plan, () => planTable([plan]))
      }),
    )
  command('list', 'list all plans').action(() =>
    cli.withExisting(async ({ db }) => {
      const plans = await listPlans(db)
      cli.show(plans, () => planTable(plans))
    }),
  )
  command('remove', 'remove a plan that no workspace has')
    .argument('<name>')
    .action((name: string) =>
      cli.withExisting(async (tools) => {
        await removePlanAsOperator(tools, tools.actor, name)
        cli.show({ removed: name }, () => `Removed: ${name}`)
      }),
    )
}

const statusOf = ({ status, removingSince }: Workspace): string => (removingSince === undefined ? status : 'removing')

function limit(text: string): number | 'none' {
  if (text === 'none') return text
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a number of messages, or none.')
  return Number(text)
}

function describe(workspace: Workspace, { POSTHORN_KEEP_CONTENT_DAYS: days }: Settings): string {
  const { id, name, ownName, plan, route, keepsContent, createdAt, removingSince } = workspace
  const content = keepsContent
    ? `kept for ${days} ${days === 1 ? 'day' : 'days'} after a message is final`
    : 'dropped as soon as a message is final'
  return facts({
    id,
    name,
    'its members say': ownName,
    status: statusOf(workspace),
    plan,
    route,
    content,
    created: createdAt,
    'being removed since': removingSince,
  })
}

function planTable(plans: readonly Plan[]): string {
  const shown = (most: number | null) => most ?? 'none'
  return table(
    ['NAME', 'API SENDING', 'HOURLY', 'DAILY', 'MONTHLY', 'UPGRADE URL'],
    plans.map((plan) => [
      plan.name,
      plan.apiSending ? 'yes' : 'no',
      shown(plan.hourly),
      shown(plan.daily),
      shown(plan.monthly),
      plan.upgradeUrl,
    ]),
    'There is no plan.',
  )
}
