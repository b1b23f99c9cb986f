// The `posthorn` command: its words, and what it answers to mistakes. Standard output is the answer and nothing else; errors go to
// standard error with status 1, wrong usage with 2 (operating contract, "The posthorn command").
import { Command, CommanderError } from 'commander'
import { Trouble } from '../base/trouble.ts'
import { version, whyWrong, type Settings } from '../config.ts'
import { makePrinter, sentenceOf } from './print.ts'
import { hasDatabase, noDatabase, withTools, type Cli } from './tools.ts'
import { isDatabaseAway, surelyAborted } from '../store/database.ts'
import { findWorkspace, mistakeOf } from '../workspace/workspace.ts'

type Make = (program: Command, cli: Cli) => void

/** Every command by its first word, in the order of the help. Only the one that is asked for is loaded. */
const commands: Readonly<Record<string, () => Promise<Make>>> = {
  serve: async () => serveCommand,
  migrate: async () => migrateCommand,
  workspace: async () => (await import('./workspaces.ts')).workspaceCommands,
  plan: async () => (await import('./workspaces.ts')).planCommands,
  domain: async () => (await import('./senders.ts')).domainCommands,
  mailbox: async () => (await import('./senders.ts')).mailboxCommands,
  key: async () => (await import('./senders.ts')).keyCommands,
  'smtp-credential': async () => (await import('./smtp-credentials.ts')).smtpCredentialCommands,
  webhook: async () => (await import('./webhooks.ts')).webhookCommands,
  suppression: async () => (await import('./suppressions.ts')).suppressionCommands,
  message: async () => (await import('./messages.ts')).messageCommands,
  backup: async () => (await import('./backup.ts')).backupCommand,
  restore: async () => (await import('./backup.ts')).restoreCommand,
  'rotate-key': async () => (await import('./rotate-key.ts')).rotateKeyCommand,
  doctor: async () => (await import('./doctor.ts')).doctorCommand,
  drain: async () => (await import('./delivery.ts')).drainCommand,
  recover: async () => (await import('./delivery.ts')).recoverCommand,
  feed: async () => (await import('./feeds.ts')).feedCommands,
  classify: async () => (await import('./classify.ts')).classifyCommand,
  feedback: async () => (await import('./feedback.ts')).feedbackCommands,
  destination: async () => (await import('./destinations.ts')).destinationCommands,
  user: async () => (await import('./users.ts')).userCommands,
}

/** What people give as a command, and what does it instead; the names that resemble these would lead them astray (`send`: feed, `login`: domain). */
const elsewhere: Readonly<Record<string, string>> = {
  send: 'mail is sent over HTTP or SMTP: README.md, "Send"; `posthorn message` tells what became of it',
  mail: '`posthorn message` is about mail that was handed in, `posthorn mailbox` about addresses that send',
  start: '`posthorn serve` runs it',
  run: '`posthorn serve` runs it',
  stop: 'SIGTERM or Ctrl-C ends what `posthorn serve` runs; `posthorn drain` stops delivery alone',
  status: '`posthorn doctor` looks at the installation, `posthorn message show ID` at one message',
  version: '`posthorn --version`',
  config: 'settings are environment variables: docs/config.md',
  invite: '`posthorn user create` makes logins; invitations are sent from the dashboard',
  login: '`posthorn user` is about logins',
}

const more = `
Commands find the database by the settings of the server (environment; docs/config.md), whether it runs or not.
--json, anywhere, prints one JSON value on standard output and nothing else; what goes wrong is one sentence on standard error.
Exit status: 0 it is done; 1 it could not be done; 2 wrong usage, and nothing was tried.

To send a first message:
  ./bin/posthorn workspace create --name Shop
  ./bin/posthorn domain add Shop example.org --verified
  ./bin/posthorn mailbox add Shop hello@example.org
  ./bin/posthorn key create Shop --name server --scope mail.send --scope mail.status.read
`

/** Returns the exit status. `settings` throws where the environment is wrong; help does not need it. */
export async function runCli(args: readonly string[], settings: () => Settings): Promise<number> {
  const json = args.includes('--json')
  const write = (text: string): void => void process.stdout.write(text)
  const withExisting: Cli['withExisting'] = async (work) => {
    const all = settings()
    if (!hasDatabase(all)) throw new Error(`${noDatabase(all)}.`)
    await withTools(all, work)
  }
  const cli: Cli = {
    json,
    write,
    ...makePrinter(json, write),
    settings,
    with: async (work) => {
      const all = settings()
      if (!hasDatabase(all)) process.stderr.write(`posthorn: ${noDatabase(all)}. A new one is made.\n`)
      await withTools(all, work)
    },
    withExisting,
    inWorkspace: (idOrName, work) =>
      withExisting(async (tools) => {
        const { id } = await findWorkspace(tools.db, tools.vault, idOrName)
        await work(tools, tools.by(id))
      }),
  }
  try {
    const given = args.filter((arg) => arg !== '--json')
    const asked = helpAsked(given)
    const program = await buildProgram(asked, cli)
    const [word = ''] = asked
    if (Object.hasOwn(elsewhere, word)) program.error(`error: unknown command '${word}'\n(${elsewhere[word]})`)
    await program.parseAsync(asked, { from: 'user' })
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    process.stderr.write(`posthorn: ${sentenceOf(mistakeOf(error) ?? error)}${lostOnTheWay(error)}\n`)
    return 1
  }
}

/** Commander's own `help` goes one word deep, and says nothing of a word that is no command. */
function helpAsked(given: readonly string[]): readonly string[] {
  const [word, of, ...deeper] = given
  if (word !== 'help' || of === undefined) return given
  if (deeper.length > 0) return [of, ...deeper, '--help']
  return of === 'help' || Object.hasOwn(commands, of) ? given : [of]
}

/** Behind the words of a line that broke while the server was asked: nobody knows what it still did. Trouble is found before anything is done. */
function lostOnTheWay(error: unknown): string {
  const { path }: Partial<NodeJS.ErrnoException> = error instanceof Error ? error : {}
  if (error instanceof Trouble || path !== undefined || surelyAborted(error) || !isDatabaseAway(error)) return ''
  return ': the connection to the database was lost meanwhile. Where the command changes something, look whether it has before you give it again'
}

/** With the command that is asked for; with all, where none is. */
async function buildProgram(asked: readonly string[], cli: Cli): Promise<Command> {
  const program = new Command('posthorn')
    .description('Transactional email of your own: accepted mail is never lost and never sent twice.')
    .version(version)
    .option('--json', 'print one JSON value')
    .addHelpText('after', more)
    .exitOverride() // commands made from here on do the same

  const word = asked[0] === 'help' ? asked[1] : asked[0]
  const all = Object.entries(commands)
  const named = all.filter(([name]) => name === word)
  const makes = await Promise.all((named.length > 0 ? named : all).map(([, load]) => load()))
  for (const make of makes) make(program, cli)
  pointToHelp(program, program.name())
  return program
}

/** Here for help and complaints alone: main.ts runs it without loading any of this, where its arguments are right. */
function serveCommand(program: Command): void {
  program
    .command('serve')
    .description('run the service')
    .option('--roles <roles>', 'comma list of api, smtp, deliver, feedback, webhooks; instead of POSTHORN_ROLES')
    .action(({ roles = '' }: { readonly roles?: string }, command: Command) => {
      const wrong = roles === '' ? undefined : whyWrong('POSTHORN_ROLES', roles)
      command.error(
        `error: ${wrong === undefined ? 'serve takes nothing but --roles ROLES, once' : `--roles ${wrong}`}`,
      )
    })
}

function migrateCommand(program: Command, cli: Cli): void {
  program
    .command('migrate')
    .description("bring the database to this release's schema")
    .action(() =>
      cli.with(async ({ version }) => {
        cli.show({ version }, () => `The database has the schema ${version}.`)
      }),
    )
}

/** Wrong usage of a command points to its own help. */
function pointToHelp(command: Command, whole: string): void {
  command.showHelpAfterError(`(${whole} --help shows what there is)`)
  for (const each of command.commands) pointToHelp(each, `${whole} ${each.name()}`)
}
