// `posthorn smtp-credential`.
import type { Command } from 'commander'
import {
  createCredentialFor,
  listSmtpCredentials,
  revokeCredentialFor,
  whoseCredential,
} from '../workspace/workspace.ts'
import type { SmtpCredential } from '../workspace/workspace.ts'
import { submissionServer, type Settings } from '../config.ts'
import { commandsOf } from './arguments.ts'
import { endOf, facts, table } from './print.ts'
import type { Cli } from './tools.ts'

export function smtpCredentialCommands(program: Command, cli: Cli): void {
  const { command, ofWorkspace } = commandsOf(program, 'smtp-credential', 'usernames and passwords for SMTP submission')

  ofWorkspace('create', 'make a credential and show its password, once')
    .option('--name <name>', 'what it is for', 'SMTP')
    .action((workspace: string, { name }: { name: string }) =>
      cli.inWorkspace(workspace, async (tools, by) => {
        const made = await createCredentialFor(tools, by, name)
        const server = serverOf(tools.settings)
        const { host, port, tlsPort } = server ?? {}
        const ports = server && `${port} with STARTTLS, ${tlsPort} with TLS from the first byte`
        const once = 'The password is shown once and kept only as a hash: store it now.'
        cli.show(
          { ...made, server },
          () => `${facts({ ...told(made), password: made.password, host, ports })}\n\n${once}`,
        )
      }),
    )
  ofWorkspace('list', 'list the credentials of a workspace').action((workspace: string) =>
    cli.inWorkspace(workspace, async ({ db }, { workspaceId: id }) => {
      const all = await listSmtpCredentials(db, id)
      const rows = () => all.map((each) => [each.id, each.name, each.username, each.lastUsedAt ?? 'never', endOf(each)])
      cli.show(all, () =>
        table(['ID', 'NAME', 'USERNAME', 'LAST USED', 'STATE'], rows(), 'The workspace has no SMTP credential yet.'),
      )
    }),
  )
  command('revoke', 'refuse a credential from now on, also in open sessions')
    .argument('<id>', 'the id of the credential')
    .action((id: string) =>
      cli.withExisting(async (tools) => {
        const by = tools.by(await whoseCredential(tools.db, id))
        const credential = await revokeCredentialFor(tools, by, id.toLowerCase())
        cli.show(credential, () => facts(told(credential)))
      }),
    )
}

/** Where it is for. At ports that the service finds for itself, nobody else knows which. */
function serverOf(settings: Settings) {
  const server = submissionServer(settings)
  return server.port === 0 || server.tlsPort === 0 ? undefined : server
}

const told = (credential: SmtpCredential) => ({
  id: credential.id,
  name: credential.name,
  username: credential.username,
  state: endOf(credential),
})
