// `posthorn user`: people of the dashboard. Operators are made here and nowhere else.
import { Option, type Command } from 'commander'
import { memberRoles, type MemberRole } from '../domain/scopes.ts'
import { createUser, findWorkspace } from '../workspace/workspace.ts'
import { facts } from './print.ts'
import type { Desk } from './tools.ts'

interface Options {
  readonly email: string
  readonly name?: string
  readonly workspace?: string
  readonly role?: MemberRole
  readonly operator: boolean
}

export function userCommands(program: Command, desk: Desk): void {
  const group = program.command('user').description('people who sign in to the dashboard')

  group
    .command('create')
    .description('make a login, or give an existing one a workspace; its password is shown once')
    .requiredOption('--email <address>', 'with which the person signs in')
    .option('--name <name>', 'what the person is called')
    .option('--workspace <workspace>', 'a workspace to be a member of: its id or exact name')
    .addOption(new Option('--role <role>', 'what the person may do there').choices([...memberRoles]))
    .option('--operator', 'an operator of the whole installation', false)
    .action((options: Options, command: Command) => {
      if (options.workspace === undefined && options.role !== undefined)
        command.error('error: a role belongs to a workspace: give --workspace, too')
      return desk.with(async ({ db, vault, actor }) => {
        const { email, name, workspace, role = 'owner', operator } = options
        const found = workspace === undefined ? undefined : await findWorkspace(db, vault, workspace)
        const made = await createUser(db, actor, {
          email,
          operator,
          ...(name !== undefined && { name }),
          ...(found !== undefined && { member: { workspace: found.id, role } }),
        })
        const { id, password } = made
        desk.show(made, () =>
          [
            facts({ id, email: made.email, operator: made.operator, workspace: found?.name, password }),
            ...(password === undefined ? ['The login existed already; its password stays.'] : []),
          ].join('\n'),
        )
      })
    })
}
