// The command as an operator runs it: a real process, a real database, nothing but the answer on standard output.
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { urlOf } from '../../test/world/postgres.ts'
import { runCli } from './cli.ts'
import { around, command, commandsOver } from './command.test-kit.ts'

const over = commandsOver()
const { posthorn, answer } = over

test('a command keeps its code compiled for the next one, and runs as well where that cannot be written', async () => {
  const folder = temporaryFolder()
  expect(await posthorn(['help'], { NODE_COMPILE_CACHE: folder })).toMatchObject({ status: 0, err: '' })
  expect(readdirSync(folder)).toHaveLength(1)
  expect(await posthorn(['help'], { NODE_COMPILE_CACHE: join(command, 'in-a-file') })).toMatchObject({
    status: 0,
    err: '',
  })
  expect(await posthorn(['help'])).toMatchObject({ status: 0, err: '' })
  expect(existsSync(join(command, '../../node_modules/.cache/posthorn'))).toBe(true)
})

test('a workspace is made ready to send, word by word as the contract says', async () => {
  expect(await answer('migrate')).toEqual({ version: expect.stringMatching(/^\d{4}-/) as string })
  const workspace = await answer('workspace', 'create', '--name', 'Shop', '--plan', 'growth')
  expect(workspace).toMatchObject({ name: 'Shop', status: 'active', plan: 'growth' })
  const domain = await answer('domain', 'add', 'Shop', 'example.org', '--verified')
  expect(domain).toMatchObject({ name: 'example.org', status: 'verified' })
  const mailbox = await answer('mailbox', 'add', workspace['id'] as string, 'hi@example.org', '--name', 'Hi')
  expect(mailbox).toMatchObject({ address: 'hi@example.org', status: 'active' })
  const scopes = ['mail.send', 'mail.status.read']
  const key = await answer(
    'key',
    'create',
    'Shop',
    '--name',
    'k',
    '--scope',
    'mail.send',
    '--scope',
    'mail.status.read',
  )
  expect(key).toMatchObject({ key: expect.stringMatching(/^ph_/) as string, scopes })
  const plan = await answer('plan', 'set', 'tiny', '--hourly', '3')
  expect(plan).toMatchObject({ name: 'tiny', hourly: 3, daily: null })
  expect(await answer('plan', 'set', 'tiny', '--hourly', 'none', '--daily', '7')).toMatchObject({
    hourly: null,
    daily: 7,
  })
})

test.each([[['--json']], [['--roles', 'api', '--json']], [['--roles', 'api', '--roles', 'smtp']], [['--']]])(
  'serve with arguments that it does not take says so, and never ends as if it had served: %s',
  async (args) => {
    expect(await posthorn(['serve', ...args])).toEqual({
      status: 2,
      out: '',
      err: 'error: serve takes nothing but --roles ROLES, once\n(posthorn serve --help shows what there is)\n',
    })
  },
)

test.each([[['--roles', 'api,smpt']], [['--roles=api, smpt']]])(
  'serve with a role that there is not is wrong usage, and the argument is named, not the setting: %s',
  async (args) => {
    expect(await posthorn(['serve', ...args])).toEqual({
      status: 2,
      out: '',
      err: 'error: --roles has "smpt": it must be all, or a comma list of api, smtp, deliver, feedback, webhooks\n(posthorn serve --help shows what there is)\n',
    })
  },
)

test('help is of the command that was asked for, however deep', async () => {
  const { status, out } = await posthorn(['help', 'message', 'send-again'])
  expect([status, out.split('\n')[0]]).toEqual([0, 'Usage: posthorn message send-again [options] <id>'])
})

test.each([
  [['help', 'worspace'], "error: unknown command 'worspace'\n(Did you mean workspace?)"],
  [['help', 'send'], "error: unknown command 'send'\n(mail is sent over HTTP or SMTP"],
])('help of what is no command says so, and what is: %s', async (args, said) => {
  const { status, out, err } = await posthorn(args)
  expect([status, out, err.slice(0, said.length)]).toEqual([2, '', said])
})

test('a command that is loaded alone is the one of that name in the help of all', async () => {
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  const helpOf = async (...words: readonly string[]): Promise<string> => {
    write.mockClear()
    await runCli(['help', ...words], () => expect.unreachable())
    return write.mock.calls.map(([text]) => text).join('')
  }
  try {
    const listed = (await helpOf()).split('\nCommands:\n')[1]?.split('\n\n')[0] ?? ''
    const names = [...listed.matchAll(/^ {2}([a-z-]+)/gm)]
      .map(([, name = '']) => name)
      .filter((name) => name !== 'help')
    expect(names.length).toBeGreaterThan(20)
    for (const name of names) expect(await helpOf(name)).toMatch(new RegExp(`^Usage: posthorn ${name}(?: |$)`, 'm'))
  } finally {
    write.mockRestore()
  }
})

test.each([
  ['send', 'mail is sent over HTTP or SMTP: README.md, "Send"; `posthorn message` tells what became of it'],
  ['login', '`posthorn user` is about logins'],
])('who gives %s is led to what there is, and not to a command with a similar name', async (word, way) => {
  expect(await posthorn([word, 'ann@example.org'])).toEqual({
    status: 2,
    out: '',
    err: `error: unknown command '${word}'\n(${way})\n(posthorn --help shows what there is)\n`,
  })
})

test.each([
  [['workspace', 'create'], 'posthorn workspace create'],
  [['workspace', 'nope'], 'posthorn workspace'],
  [['nope'], 'posthorn'],
])('wrong usage names the help of the command that was meant: %s', async (args, command) => {
  const { status, err } = await posthorn(args)
  expect([status, err.split('\n').at(-2)]).toEqual([2, `(${command} --help shows what there is)`])
})

test('a file that is not there is told so, and a folder in place of one too', async () => {
  expect(await posthorn(['classify', '--report', '/nowhere'])).toMatchObject({
    status: 1,
    err: 'posthorn: There is no file /nowhere.\n',
  })
  expect(await posthorn(['classify', '--report', tmpdir()])).toMatchObject({
    status: 1,
    err: `posthorn: ${tmpdir()} is a folder and no file.\n`,
  })
  expect(await posthorn(['backup', tmpdir()])).toMatchObject({
    status: 1,
    err: `posthorn: ${tmpdir()} cannot be written: it is a folder.\n`,
  })
})

test('people get readable text, --json may stand anywhere, and PG variables mean nothing', async () => {
  const text = await posthorn(['workspace', 'list'])
  expect(text.out).toMatch(/^ID +NAME +STATUS +PLAN +ROUTE\n[0-9a-f-]{36} +Shop +active +growth\n$/)
  const env = {
    PGPORT: '1',
    PGHOST: 'nowhere.invalid',
    PGSSLMODE: 'require',
    PGUSER: 'nobody',
    PGOPTIONS: '-c nonsense=1',
  }
  const early = await posthorn(['--json', 'workspace', 'list'], env)
  expect(early).toMatchObject({ status: 0, err: '' })
  expect(JSON.parse(early.out)).toMatchObject([{ name: 'Shop' }])
})

test('the lists tell when a key or a login was used last and when it ends, and the log of webhooks whose message an event is of', async () => {
  const { id: workspace } = await answer('workspace', 'create', '--name', 'Listed')
  const end = '2099-01-31T00:00:00.000Z'
  const [used, message] = ['2026-11-20T10:00:00.000Z', '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4cad']
  const db = over.open()
  await db.run(
    `insert into api_keys (workspace_id, id, name, prefix, secret_hash, scopes, created_at, last_used_at, expires_at) values
       ($1, gen_random_uuid(), 'brief', 'ph_', '\\x01', '{mail.send}', '2026-01-01', $2, $3),
       ($1, gen_random_uuid(), 'idle', 'ph_', '\\x02', '{mail.send}', '2026-01-02', null, null)`,
    [workspace, used, end],
  )
  await db.run(
    `insert into smtp_credentials (workspace_id, id, name, username, password_hash, last_used_at, expires_at)
     values ($1, gen_random_uuid(), 'brief', 'smtp-listed', '', $2, $3)`,
    [workspace, used, end],
  )
  await db.run(
    `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
     values ($1, $2, $1, 'rest', 'queued', 1, 'a@example.org', 'b@example.org', 'b@example.org', 'Hi', 'n1', now())`,
    [workspace, message],
  )
  await db.run(
    `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at) values ($1, $2, 1, 'message.queued', 'queued', 0, now())`,
    [workspace, message],
  )
  await db.close()
  const lines = async (...args: string[]) => (await posthorn(args)).out.split('\n')
  const keys = await lines('key', 'list', 'Listed')
  expect(keys[0]).toMatch(/ LAST USED +STATE$/)
  expect(keys[1]).toMatch(new RegExp(` brief .* ${used} +valid until ${end}$`))
  expect(keys[2]).toMatch(/ idle .* never +valid$/)
  expect((await lines('smtp-credential', 'list', 'Listed'))[1]).toMatch(new RegExp(` ${used} +valid until ${end}$`))
  expect((await lines('webhook', 'log', 'Listed'))[1]).toMatch(new RegExp(` message\\.queued +${message} `))
}, 180_000)

test('who makes an SMTP login reads where it is for, as the dashboard says it', async () => {
  await answer('workspace', 'create', '--name', 'Printers')
  const create = ['smtp-credential', 'create', 'Printers', '--name', 'printer']
  const settings = {
    POSTHORN_PUBLIC_URL: 'https://post.example.org',
    POSTHORN_HOSTNAME: 'mail.example.org',
    POSTHORN_SMTP_PUBLIC_PORT: '587',
    POSTHORN_SMTPS_PUBLIC_PORT: '465',
  }
  const { out } = await posthorn(create, settings)
  expect(out).toMatch(
    /^password: \S+\nhost: +mail\.example\.org\nports: +587 with STARTTLS, 465 with TLS from the first byte\n\n/m,
  )
  expect(JSON.parse((await posthorn([...create, '--json'], settings)).out)).toMatchObject({
    server: { host: 'mail.example.org', port: 587, tlsPort: 465 },
  })
  // A port that the service finds for itself is none that could be told.
  expect((await posthorn(create, { POSTHORN_SMTP_PORT: '0' })).out).not.toMatch(/^(?:host|ports):/m)
})

test('the password of the database may stand in a file of passwords, and nothing is said beside the answer', async () => {
  const url = new URL(urlOf(over.connection()))
  const PGPASSFILE = join(temporaryFolder(), 'pgpass')
  writeFileSync(PGPASSFILE, `*:*:*:*:${decodeURIComponent(url.password)}\n`, { mode: 0o600 })
  url.password = ''
  const listed = await posthorn(['workspace', 'list', '--json'], { DATABASE_URL: url.href, PGPASSFILE })
  expect(listed).toMatchObject({ status: 0, err: '' })
})

describe('mistakes', () => {
  test.each([
    ['a workspace that is not there', ['workspace', 'show', 'Nope', '--json'], 1, /no workspace "Nope"/],
    ['an unknown command', ['wrokspace'], 2, /unknown command/],
    ['a missing option', ['workspace', 'create'], 2, /--name/],
    ['a time that is a bare number', ['webhook', 'replay', 'Shop', '--from', '5'], 2, /time with its zone/],
    ['a time of no zone', ['key', 'create', 'Shop', '--name', 'x', '--expires', '2027-01-31T00:00'], 2, /its zone/],
    ['nothing to change', ['workspace', 'set', 'Shop'], 2, /give --name, --plan, --status, --route or --keep-content/],
    ['a value that is none', ['workspace', 'set', 'Shop', '--status', 'asleep'], 2, /Allowed choices/],
    [
      'a scope that is none',
      ['key', 'create', 'Shop', '--name', 'x', '--scope', 'mail.send,nope'],
      2,
      /no scope "nope".*mail\.send, mail\.status\.read/,
    ],
    ['a provider that is none', ['feed', 'add', 'nope'], 2, /Allowed choices are ses, postmark/],
    ['neither an event nor a time', ['webhook', 'replay', 'Shop'], 2, /give either --event, or --from/],
    ['no choice where one must be made', ['recover'], 2, /give one of --resume and --assume-sent-since TIME/],
    ['a day that there is not', ['recover', '--assume-sent-since', '2026-02-30T03:00:00Z'], 2, /must be a time/],
    ['two choices', ['recover', '--resume', '--assume-sent-since', '2026-11-01T03:00:00Z'], 2, /give one of/],
    ['a role of nothing', ['user', 'create', '--email', 'a@b.example', '--role', 'owner'], 2, /give --workspace, too/],
    [
      'a file without a folder',
      ['backup', '/nowhere/x'],
      1,
      /^posthorn: \/nowhere\/x cannot be written: its folder does not exist\.\n$/,
    ],
  ])('%s: standard error and status', async (_, args, status, words) => {
    const ended = await posthorn(args)
    expect(ended).toMatchObject({ status, out: '' })
    expect(ended.err).toMatch(words)
    expect(ended.err).not.toContain('    at ')
  })

  test.each([
    ['its reader has gone', '"$0" plan list > >(exec true)', 1, ''],
    ['the disk is full', '"$0" plan list > /dev/full', 1, 'posthorn: standard output cannot be written (ENOSPC)\n'],
  ])('where %s, a command ends without a stack', async (_, script, status, err) => {
    const env = around(over.connection())
    const ended = await new Promise((resolve) => {
      execFile('bash', ['--norc', '-c', script, command], { env }, (error, _out, said) =>
        resolve({ status: error?.code ?? 0, err: said }),
      )
    })
    expect(ended).toEqual({ status, err })
  })

  test('in a folder that was removed under the shell, a command says so, without a stack', async () => {
    const folder = temporaryFolder()
    const script = 'cd "$1" && rmdir "$1" && "$0" plan list'
    const env = around(over.connection())
    const said = await new Promise<string>((resolve) => {
      execFile('bash', ['--norc', '-c', script, command, folder], { env }, (error, _out, err) =>
        resolve(`${error?.code} ${err}`),
      )
    })
    expect(said).toMatch(
      /^1 [^]*^posthorn: the folder that you are in does not exist any more: go to another \(cd\)\.\n$/m,
    )
    expect(said).not.toContain('    at ')
  })

  test('whose line to the database breaks under the question is told that nobody knows, and what to do', async () => {
    const db = over.open()
    const cut = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'posthorn command' and wait_event_type = 'Lock' and datname = current_database()`
    const ended = await db.transaction(async (tx) => {
      await tx.run('lock table workspaces in access exclusive mode')
      const command = posthorn(['workspace', 'create', '--name', 'Half'])
      while ((await db.run(cut)).length === 0) continue
      return command
    })
    await db.close()
    expect(ended).toEqual({
      status: 1,
      out: '',
      err: 'posthorn: terminating connection due to administrator command: the connection to the database was lost meanwhile. Where the command changes something, look whether it has before you give it again\n',
    })
  })

  test('wrong settings are told all together, and help works without them', async () => {
    const wrong = await posthorn(['migrate'], { POSTHORN_HTTP_PORT: 'x', POSTHORN_ROUTE: 'smtp://u:%ZZ@h' })
    expect(wrong).toMatchObject({ status: 1, out: '' })
    expect(wrong.err).toMatch(/POSTHORN_HTTP_PORT must be[^]*POSTHORN_ROUTE has a user or password/)
    const help = await posthorn(['--help'], { POSTHORN_HTTP_PORT: 'x' })
    expect(help).toMatchObject({ status: 0, err: '' })
    expect(help.out).toContain('posthorn workspace create --name Shop')
  })
})

test('the login of a relay needs not stand on a command line, where everybody on the machine can read it', async () => {
  await answer('workspace', 'create', '--name', 'Relayed')
  const route = 'smtps://me:secret@relay.example:465\n'
  const set = await posthorn(['workspace', 'set', 'Relayed', '--route', '-', '--json'], {}, route)
  expect(set).toMatchObject({ status: 0, err: '' })
  expect(set.out).toContain('relay.example')
  expect(set.out).not.toContain('secret')
  expect(await posthorn(['workspace', 'set', 'Relayed', '--route', '-'], {}, '')).toMatchObject({ status: 1, out: '' })
})

describe('in a data folder without a database', () => {
  const folder = temporaryFolder()
  const dataDir = join(folder, 'data')
  const there = (...args: string[]) => posthorn(args, { DATABASE_URL: undefined, POSTHORN_DATA_DIR: dataDir })

  test.each([
    ['backup', 'file.backup'],
    ['drain'],
    ['recover', '--resume'],
    ['rotate-key'],
    ['message', 'list', 'Shop'],
    ['workspace', 'show', 'Shop'],
    ['webhook', 'log', 'Shop'],
    ['suppression', 'export', 'Shop'],
    ['domain', 'list', 'Shop'],
    ['key', 'revoke', '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d'],
    ['user', 'reset', 'ann@people.example'],
    ['workspace', 'list'],
    ['plan', 'list'],
    ['user', 'list'],
    ['feed', 'list'],
    ['feedback', 'list'],
    ['feedback', 'rotate-key'],
    ['destination', 'list'],
  ])('%s has nothing to work on, says which folder it looked into, and makes none', async (...args) => {
    const { status, out, err } = await there(...args)
    expect([status, out]).toEqual([1, ''])
    expect(err).toContain(`There is no database in ${dataDir} yet.`)
    expect(err).toMatch(/POSTHORN_DATA_DIR or DATABASE_URL/)
    expect(existsSync(dataDir)).toBe(false)
  })

  test('doctor looks and makes nothing: a new and empty installation would be told as a healthy one', async () => {
    const bare = { DATABASE_URL: undefined, POSTHORN_SECRET_KEY: undefined, POSTHORN_DATA_DIR: dataDir }
    const { status, out } = await posthorn(['doctor', '--json'], bare)
    expect(status).toBe(0)
    const { checks } = JSON.parse(out) as { checks: { name: string; status: string; detail: string }[] }
    const found = Object.fromEntries(checks.map((check) => [check.name, check]))
    expect(found['database']).toMatchObject({ status: 'fail' })
    expect(found['database']?.detail).toContain(`There is no database in ${dataDir} yet.`)
    expect(found['installation_key']).toMatchObject({ status: 'warn' })
    expect(existsSync(dataDir)).toBe(false)
  })

  test('what begins an installation makes one, and says so beside its answer', async () => {
    const first = await there('workspace', 'create', '--name', 'Shop', '--json')
    expect(first.status).toBe(0)
    expect(first.err).toContain(`There is no database in ${dataDir} yet.`)
    expect(first.err).toContain('A new one is made.')
    expect(JSON.parse(first.out)).toMatchObject({ name: 'Shop' })
    expect(await there('workspace', 'list')).toMatchObject({ status: 0, err: '' })
  })
})

test('to forget an old key where there is none is no mistake, and is not said to be done', async () => {
  const { status, out } = await posthorn(['rotate-key', '--finish'])
  expect({ status, out }).toEqual({ status: 0, out: expect.stringMatching(/There is no old key/) as string })
})
