// `posthorn domain`, `posthorn mailbox` and `posthorn key`.
import { InvalidArgumentError, Option, type Command } from 'commander'
import { silentLog } from '../base/log.ts'
import { makeZones } from '../base/zones.ts'
import {
  addDomainFor,
  addMailboxFor,
  changeMailboxFor,
  createKeyFor,
  domainNamed,
  endEd25519For,
  listDomains,
  listKeys,
  listMailboxes,
  makeDomainChecker,
  makeDomainNotices,
  makeNotifier,
  Mistake,
  removeDomain,
  removeMailbox,
  revokeKeyFor,
  rotateDkimFor,
  unvouchDomain,
  whoseKey,
  whoseMailbox,
} from '../workspace/workspace.ts'
import type { ApiKey, By, Domain, DomainChange, Mailbox } from '../workspace/workspace.ts'
import { scopes } from '../domain/scopes.ts'
import type { MadeRow } from '../store/made-by-key.ts'
import { instant, commandsOf } from './arguments.ts'
import { asWord, endOf, facts, sentenceOf, table } from './print.ts'
import type { Cli, Tools } from './tools.ts'

export function domainCommands(program: Command, cli: Cli): void {
  const { ofWorkspace } = commandsOf(program, 'domain', 'domains that a workspace sends from')
  /** Does something with a domain, and shows it as it is then. */
  const shown = (act: (tools: Tools, by: By, id: string) => Promise<Domain>) => (workspace: string, name: string) =>
    cli.inWorkspace(workspace, async (tools, by) => {
      const { id } = await domainNamed(tools.db, by.workspaceId, name)
      const domain = await act(tools, by, id)
      cli.show(domain, () => describeDomain(domain))
    })

  ofWorkspace('add', 'add a domain and show the DNS records that it needs')
    .argument('<name>', 'the domain, such as example.org')
    .option('--verified', 'take it as verified on your word (tests, migrations)', false)
    .action((workspace: string, name: string, { verified }: { verified: boolean }) =>
      cli.inWorkspace(workspace, async (tools, by) => {
        const domain = await addDomainFor(tools, by, name, verified)
        cli.show(domain, () => `${describeDomain(domain)}\n\n${stepsAfter(domain, workspace)}`)
      }),
    )
  ofWorkspace('check', 'look at the DNS now, and say what is there and what is wrong')
    .argument('<name>', 'the domain')
    .action(shown(checkDomain))
  ofWorkspace(
    'rotate-dkim',
    'make a new DKIM key; when its record was seen, it signs what is accepted from two minutes later on',
  )
    .argument('<name>', 'the domain')
    .option('--ed25519', 'an Ed25519 key, which signs beside the RSA key (RFC 8463)', false)
    .action((workspace: string, name: string, { ed25519 }: { ed25519: boolean }) =>
      shown((tools, by, id) => rotateDkimFor(tools, by, id, ed25519 ? 'ed25519-sha256' : 'rsa-sha256'))(
        workspace,
        name,
      ),
    )
  ofWorkspace(
    'end-ed25519',
    'sign with RSA alone again: the Ed25519 key is kept for mail under way, as one that was replaced is',
  )
    .argument('<name>', 'the domain')
    .action(shown(endEd25519For))
  ofWorkspace('list', 'list the domains of a workspace with their DNS records').action((workspace: string) =>
    cli.inWorkspace(workspace, async ({ db, hostname }, { workspaceId: id }) => {
      const domains = await listDomains(db, id, hostname)
      cli.show(domains, () => domains.map(describeDomain).join('\n\n') || 'The workspace has no domain yet.')
    }),
  )
  ofWorkspace(
    'unvouch',
    'take back the word of `add --verified`: the domain keeps its state, and from now on the DNS decides',
  )
    .argument('<name>', 'the domain')
    .action(shown(unvouchDomain))
  ofWorkspace('remove', 'remove a domain that has no mailboxes, with its DKIM keys')
    .argument('<name>', 'the domain')
    .action((workspace: string, name: string) =>
      cli.inWorkspace(workspace, async (tools, by) => {
        const { id } = await domainNamed(tools.db, by.workspaceId, name)
        const removed = await removeDomain(tools, by, id)
        cli.show({ removed }, () => `Removed: ${removed}`)
      }),
    )
}

/** Looks at the DNS now. */
async function checkDomain(tools: Tools, { workspaceId }: By, id: string): Promise<Domain> {
  const { db, hostname, settings } = tools
  const zones = makeZones({ servers: settings.POSTHORN_DNS_SERVERS })
  const checker = makeDomainChecker({ db, hostname, zones, tell: (change) => tellOwners(tools, change) })
  const domain = await checker.check(workspaceId, id)
  if (domain === undefined) throw new Mistake('The domain was removed meanwhile.')
  return domain
}

/** As when the service looks: no later look finds that anything has changed. */
async function tellOwners(tools: Tools, change: DomainChange): Promise<void> {
  const { db, publicUrl, settings } = tools
  const failed = (error: unknown): void =>
    void process.stderr.write(`posthorn: the owners could not be told of it: ${sentenceOf(error)}\n`)
  const log = { ...silentLog, fault: (_what: string, error: unknown) => failed(error) }
  try {
    const { withAcceptance } = await import('./acceptance.ts')
    await withAcceptance(tools, ({ accept }) => {
      const notify = makeNotifier({ db, log, mailbox: settings.POSTHORN_SYSTEM_MAILBOX, accept })
      return makeDomainNotices({ db, notify, publicUrl, log })(change)
    })
  } catch (error) {
    failed(error)
  }
}

export function mailboxCommands(program: Command, cli: Cli): void {
  const { command, ofWorkspace } = commandsOf(program, 'mailbox', 'addresses that a workspace sends from')

  ofWorkspace('add', 'add a mailbox on a domain of the workspace')
    .argument('<address>', 'such as shop@example.org')
    .option('--name <name>', 'the display name that recipients see')
    .action((workspace: string, address: string, { name }: { name?: string }) =>
      cli.inWorkspace(workspace, async (tools, by) => {
        const mailbox = await addMailboxFor(tools, by, address, name)
        const { status } = await domainNamed(tools.db, by.workspaceId, mailbox.domain)
        cli.show(mailbox, () => `${describeMailbox(mailbox)}${waitingFor(mailbox.domain, status, workspace)}`)
      }),
    )
  ofWorkspace('list', 'list the mailboxes of a workspace').action((workspace: string) =>
    cli.inWorkspace(workspace, async ({ db }, { workspaceId: id }) => {
      const all = await listMailboxes(db, id)
      const rows = () => all.map((each) => [each.id, each.address, each.name, each.status])
      cli.show(all, () => table(['ID', 'ADDRESS', 'NAME', 'STATUS'], rows(), 'The workspace has no mailbox yet.'))
    }),
  )
  command('set', 'switch a mailbox on or off, or change its name')
    .argument('<id>', 'the id of the mailbox')
    .addOption(new Option('--status <status>').choices(['active', 'disabled']))
    .option('--name <name>', 'the display name that recipients see; an empty one takes it away')
    .action((id: string, wish: { status?: 'active' | 'disabled'; name?: string }, command: Command) => {
      if (Object.keys(wish).length === 0) command.error('error: give --status or --name')
      return cli.withExisting(async (tools) => {
        const workspace = await whoseMailbox(tools.db, id)
        const mailbox = await changeMailboxFor(tools, tools.by(workspace), id.toLowerCase(), wish)
        cli.show(mailbox, () => describeMailbox(mailbox))
      })
    })
  command('remove', 'remove a mailbox for good: its mail that waits fails, what was sent stays')
    .argument('<id>', 'the id of the mailbox')
    .action((id: string) =>
      cli.withExisting(async (tools) => {
        const workspace = await whoseMailbox(tools.db, id)
        const office = { db: tools.db, systemMailbox: tools.settings.POSTHORN_SYSTEM_MAILBOX }
        const removed = await removeMailbox(office, tools.by(workspace), id.toLowerCase())
        cli.show({ removed }, () => `Removed: ${removed}`)
      }),
    )
}

export function keyCommands(program: Command, cli: Cli): void {
  const { command, ofWorkspace } = commandsOf(program, 'key', 'API keys of a workspace')

  ofWorkspace('create', 'make a key and show it, once')
    .requiredOption('--name <name>', 'what it is for')
    .requiredOption('--scope <scope>', 'what it may do; give it again for more', collect)
    .option('--expires <time>', 'until when, such as 2027-01-31T00:00:00Z', instant)
    .addHelpText('after', `\nScopes: ${scopes.join(', ')}`)
    .action((workspace: string, options: { name: string; scope: readonly string[]; expires?: Date }) =>
      cli.inWorkspace(workspace, async (tools, by) => {
        const { name, scope: scopes, expires: expiresAt } = options
        const wish = { name, scopes, ...(expiresAt !== undefined && { expiresAt }) }
        const made = await createKeyFor(tools, by, wish)
        const once = 'This key is shown once and kept only as a hash: store it now.'
        cli.show(made, () => `${describeKey(made)}\nkey:    ${made.key}\n\n${once}`)
      }),
    )
  ofWorkspace('list', 'list the keys of a workspace').action((workspace: string) =>
    cli.inWorkspace(workspace, async ({ db }, { workspaceId: id }) => {
      const keys = await listKeys(db, id)
      const rows = () =>
        keys.map((key) => [
          key.id,
          key.name,
          `${key.prefix}...`,
          key.scopes.join(' '),
          key.lastUsedAt ?? 'never',
          endOf(key),
        ])
      const heads = ['ID', 'NAME', 'KEY', 'SCOPES', 'LAST USED', 'STATE']
      cli.show(keys, () => table(heads, rows(), 'The workspace has no key yet.'))
    }),
  )
  command('revoke', 'refuse a key from now on')
    .argument('<id>', 'the id of the key')
    .action((id: string) =>
      cli.withExisting(async (tools) => {
        const key = await revokeKeyFor(tools, tools.by(await whoseKey(tools.db, id)), id.toLowerCase())
        const made = (key.stillValid ?? []).map((each) => [each.id, madeKinds[each.kind], each.name])
        const rest = () => `\n\nMade with it and still valid:\n${table(['ID', 'WHAT', 'NAME'], made, '')}`
        cli.show(key, () => `${describeKey(key)}${made.length > 0 ? rest() : ''}`)
      }),
    )
}

const madeKinds = {
  key: 'API key',
  smtp_credential: 'SMTP credential',
  member: 'member',
  webhook: 'webhook endpoint',
} as const satisfies Record<MadeRow['kind'], string>

function collect(value: string, before: readonly string[] = []): readonly string[] {
  const given = value.split(',').map((each) => each.trim())
  const wrong = given.find((each) => !(scopes as readonly string[]).includes(each))
  if (wrong !== undefined)
    throw new InvalidArgumentError(`There is no scope "${wrong}"; there are ${scopes.join(', ')}.`)
  return [...before, ...given]
}

function describeDomain(domain: Domain): string {
  const { id, name, status, vouched, brokenSince, returnPathHost, checkedAt, records, zoneFile, advice } = domain
  const rows = records.map(({ type, name: at, status: state, value, waitsFor }) => [
    type,
    at,
    state,
    waitsFor === undefined ? value : 'not yet: see below',
  ])
  const findings = records.flatMap(({ type, name: at, finding }) =>
    finding === undefined ? [] : `${type} ${at}: ${finding}`,
  )
  const words = [...findings, ...advice].map((each) => `\n- ${each}`).join('')
  const about = facts({
    id,
    name,
    status: vouched ? `${status} by your word, or the first start's; checks change nothing` : status,
    'broken since': brokenSince,
    'return path': returnPathHost,
    checked: checkedAt,
  })
  const zone = zoneFile === '' ? '' : `\n\nWhat is still to set, as lines of a zone file:\n${zoneFile}`
  return `${about}\n${table(['TYPE', 'NAME', 'STATUS', 'VALUE'], rows, '')}${words}${zone}`
}

/** What whoever has added a domain does next, as they would type it. */
function stepsAfter({ name, status }: Domain, workspace: string): string {
  const where = asWord(workspace)
  const mailbox = `  ./bin/posthorn mailbox add ${where} hello@${name}`
  if (status === 'verified') return `Next, an address to send from:\n${mailbox}`
  return `Next, publish these records where ${name} has its DNS. Then look whether they are seen, and add an address to send from:\n  ./bin/posthorn domain check ${where} ${name}\n${mailbox}`
}

/** Nothing where it can send. */
function waitingFor(domain: string, status: Domain['status'], workspace: string): string {
  if (status === 'verified' || status === 'degraded') return ''
  const where = asWord(workspace)
  return `\n\n${domain} is ${status}, so mail from this address is refused until the records of the domain are found in the DNS. Which they are, and whether they are seen:\n  ./bin/posthorn domain list ${where}\n  ./bin/posthorn domain check ${where} ${domain}`
}

function describeMailbox({ id, address, name, status }: Mailbox): string {
  return facts({ id, address, name, status })
}

function describeKey(key: ApiKey): string {
  return facts({ id: key.id, name: key.name, scopes: key.scopes.join(' '), state: endOf(key) })
}
