// `posthorn user`: people of the dashboard. Operators are made here and nowhere else; who has lost everything gets in again by this.
import { Option, type Command } from 'commander'
import { memberRoles, type MemberRole } from '../domain/scopes.ts'
import { beginLoginAnew, createUser, findWorkspace, listLogins, removeLogin, setLogin } from '../workspace/workspace.ts'
import { commandsOf } from './arguments.ts'
import { asWord, facts, table } from './print.ts'
import type { Cli } from './tools.ts'

interface Options {
  readonly email: string
  readonly name?: string
  readonly workspace?: string
  readonly role?: MemberRole
  readonly operator: boolean
}

const once = 'The password is shown once and kept only as a hash: store it now.'

export function userCommands(program: Command, cli: Cli): void {
  const { command } = commandsOf(program, 'user', 'people who sign in to the dashboard')

  command('create', 'make a login, or give an existing one a workspace; its password is shown once')
    .requiredOption('--email <address>', 'with which the person signs in')
    .option('--name <name>', 'what the person is called; one whose login exists keeps their own')
    .option('--workspace <workspace>', 'a workspace to be a member of: its id or exact name')
    .addOption(new Option('--role <role>', 'what the person may do there').choices([...memberRoles]))
    .option('--operator', 'an operator of the whole installation', false)
    .action((options: Options, command: Command) => {
      if (options.workspace === undefined && options.role !== undefined)
        command.error('error: a role belongs to a workspace: give --workspace, too')
      // No role stands in for one that was forgotten: the greatest would give away everything, and any other surprises.
      if (options.workspace !== undefined && options.role === undefined)
        command.error(`error: --workspace needs --role, what the person may do there: ${memberRoles.join(', ')}`)
      return cli.with(async ({ db, vault, actor }) => {
        const { email, name, workspace, role, operator } = options
        const found = workspace === undefined ? undefined : await findWorkspace(db, vault, workspace)
        const made = await createUser(db, actor, {
          email,
          operator,
          ...(name !== undefined && { name }),
          ...(found !== undefined && role !== undefined && { member: { workspace: found.id, role } }),
        })
        const { id, password } = made
        cli.show(made, () =>
          [
            facts({
              id,
              email: made.email,
              name: made.name,
              operator: made.operator,
              workspace: found?.name,
              role,
              password,
            }),
            ...(password === undefined ? ['The login existed already; its name and password stay.'] : ['', once]),
            ...(!made.operator && found === undefined
              ? [
                  `It belongs to no workspace yet: ./bin/posthorn user create --email ${asWord(made.email)} --workspace NAME --role ROLE`,
                ]
              : []),
          ].join('\n'),
        )
      })
    })

  command('list', 'list all logins, with their workspaces').action(() =>
    cli.withExisting(async ({ db }) => {
      const all = await listLogins(db)
      const rows = () =>
        all.map(({ email, operator, twoFactor, workspaces, lastSignInAt }) => [
          email,
          operator ? 'yes' : 'no',
          twoFactor ? 'yes' : 'no',
          workspaces.map(({ name, role }) => `${name} (${role})`).join(', '),
          lastSignInAt ?? 'never',
        ])
      const heads = ['EMAIL', 'OPERATOR', 'SECOND FACTOR', 'WORKSPACES', 'LAST SIGN-IN']
      cli.show(all, () => table(heads, rows(), 'There is no login yet.'))
    }),
  )
  command('set', 'give somebody the rights of an operator, or take them')
    .argument('<email>')
    .addOption(new Option('--operator <flag>').choices(['true', 'false']).makeOptionMandatory())
    .action((email: string, { operator }: { operator: 'true' | 'false' }) =>
      cli.withExisting(async ({ db, actor }) => {
        const changed = await setLogin(db, actor, email, { operator: operator === 'true' })
        cli.show(changed, () => facts({ ...changed }))
      }),
    )
  command('reset', 'begin a login anew: a new password, shown once; second factor, passkeys and sessions go')
    .argument('<email>')
    .action((email: string) =>
      cli.withExisting(async ({ db, actor }) => {
        const anew = await beginLoginAnew(db, actor, email)
        cli.show(anew, () => `${facts({ ...anew })}\n\n${once}`)
      }),
    )
  command('remove', 'remove a login for good, with its sessions and memberships')
    .argument('<email>')
    .option('--yes', 'remove it; without this, it is only told what would go', false)
    .action((email: string, { yes }: { readonly yes: boolean }) =>
      cli.withExisting(async ({ db, actor }) => {
        const removed = await removeLogin(db, actor, email, yes)
        cli.show(removed, () => `Removed: ${removed.email}`)
      }),
    )
}
