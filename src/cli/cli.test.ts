// The command as an operator runs it: a real process, a real database, nothing but the answer on standard output.
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { freshDatabase, type FreshDatabase } from '../../test/world/postgres.ts'
import { families } from '../domain/report-families.test-kit.ts'
import { serverOf } from '../store/connection.ts'
import { openDatabase } from '../store/database.ts'
import { runCli } from './cli.ts'
import { around, command, run } from './command.test-kit.ts'

let database: FreshDatabase

beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const posthorn = (args: readonly string[], more: NodeJS.ProcessEnv = {}, input?: string) =>
  run(around(database.connection, more), args, input)

/** The JSON value that a command printed, and nothing beside it. */
async function answer(...args: readonly string[]): Promise<Record<string, unknown>> {
  const { status, out, err } = await posthorn([...args, '--json'])
  expect({ status, err }).toEqual({ status: 0, err: '' })
  return JSON.parse(out) as Record<string, unknown>
}

test('a command keeps its code compiled for the next one, and runs as well where that cannot be written', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'posthorn-compiled-'))
  try {
    expect(await posthorn(['help'], { NODE_COMPILE_CACHE: folder })).toMatchObject({ status: 0, err: '' })
    expect(readdirSync(folder)).toHaveLength(1)
  } finally {
    rmSync(folder, { recursive: true })
  }
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

test('limits towards a provider are set, listed and taken away', async () => {
  const set = ['--connections', '4', '--rate', '30/minute', '--warm-up', 'on']
  expect(await answer('destination', 'set', 'Google', ...set)).toEqual({
    name: 'google',
    connections: 4,
    messagesPerConnection: null,
    perMinute: 30,
    warmUpDays: 0,
  })
  expect(await answer('destination', 'list')).toHaveLength(1)
  const wrong = await posthorn(['destination', 'set', 'google', '--connections', 'many'])
  expect([wrong.status, wrong.out]).toEqual([2, ''])
  // Nothing given is wrong usage, and leaves no row of nothing.
  expect(await posthorn(['destination', 'set', 'yahoo'])).toMatchObject({ status: 2 })
  expect(await answer('destination', 'list')).toHaveLength(1)
  expect(await answer('destination', 'remove', 'google')).toEqual({ removed: 'google' })
  expect(await posthorn(['destination', 'remove', 'google'])).toMatchObject({
    status: 1,
    err: 'posthorn: Nothing is set for google; `posthorn destination list` shows what is.\n',
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

test('the message that an operator looks for is found by what is known of it', async () => {
  const { id: workspace } = await answer('workspace', 'create', '--name', 'Sought')
  const [sent, waits] = ['0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c01', '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c02']
  const db = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 10_000 })
  for (const [id, status, rank, recipient] of [
    [sent, 'sent', 2, 'ann@example.com'],
    [waits, 'retrying', 0, 'Bob@example.com'],
  ])
    await db.run(
      `insert into messages (workspace_id, id, mailbox_id, source, status, delivery_rank, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at, finished_at)
       values ($1, $2, $1, 'rest', $3, $4, 1, 's@example.org', $5, lower($5), $6, 'n1', now(), $7)`,
      [workspace, id, status, rank, recipient, `Hi ${status}`, status === 'sent' ? new Date() : null],
    )
  await db.run(`update messages set metadata = '{"order":"7=7"}', provider_message_id = '4XyZ' where id = $1`, [sent])
  await db.close()
  const found = async (...args: string[]) =>
    ((await answer('message', 'list', 'Sought', ...args)) as unknown as { id: string }[]).map(({ id }) => id)
  expect(await found()).toEqual([waits, sent])
  expect(await found('--status', 'retrying')).toEqual([waits])
  expect(await found('--delivery-status', 'delivered')).toEqual([sent])
  expect(await found('--recipient', 'bob@EXAMPLE.com')).toEqual([waits])
  expect(await found('--text', 'HI S')).toEqual([sent])
  expect(await found('--mailbox', String(workspace).toUpperCase(), '--limit', '1')).toEqual([waits])
  expect(await found('--from', '2025-10-17T00:00:00Z', '--to', '2025-10-18T00:00:00Z')).toEqual([waits, sent])
  expect(await found('--metadata', 'order=7=7')).toEqual([sent])
  expect(await found('--metadata', '=7=7')).toEqual([sent])
  expect(await found('--metadata', 'colour=7=7')).toEqual([])
  expect(await found('--provider-id', '4XyZ')).toEqual([sent])
  expect(await found('--provider-id', '250 2.0.0 Ok: queued as 4XyZ')).toEqual([sent])
  const none = await posthorn(['message', 'list', 'Sought', '--to', '2025-10-16T00:00:00Z'])
  expect(none).toEqual({ status: 0, out: 'There is no such message.\n', err: '' })
  for (const [option, value] of [
    ['--status', 'deferred'],
    ['--delivery-status', 'lost'],
    ['--mailbox', 'x'],
    ['--from', '2025'],
  ] as const)
    expect(await posthorn(['message', 'list', 'Sought', option, value])).toMatchObject({ status: 2, out: '' })
}, 180_000)

test('a message that failed is sent again once, and each of the two says which the other is', async () => {
  const workspace = (await answer('workspace', 'create', '--name', 'Again', '--plan', 'growth'))['id']
  await answer('domain', 'add', 'Again', 'again.example', '--verified')
  const mailbox = (await answer('mailbox', 'add', 'Again', 'post@again.example'))['id']
  const id = '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4caa'
  const unknown = '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4cab'
  const db = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 15_000 })
  const made = async (message: string, status: string) => {
    await db.run(
      `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at, finished_at)
       values ($1, $2, $3, 'rest', $4, 1, 'post@again.example', 'Zoe@example.com', 'zoe@example.com', 'Hi', 'n1', now(), now())`,
      [workspace, message, mailbox, status],
    )
    await db.run('insert into contents (workspace_id, message_id, body_text) values ($1, $2, $3)', [
      workspace,
      message,
      'Good morning',
    ])
  }
  await made(id, 'failed')
  await made(unknown, 'delivery_unknown')
  const sendAgain = (...args: string[]) => posthorn(['message', 'send-again', ...args])
  const blocked = async (status: string) => answer('workspace', 'set', 'Again', '--status', status)
  await blocked('blocked')
  expect(await sendAgain(id)).toMatchObject({ status: 1, err: expect.stringContaining('is blocked') as string })
  await blocked('active')
  const first = (await answer('message', 'send-again', id)) as { readonly id: string }
  expect(first).toMatchObject({ sentAgainFor: id, recipient: 'Zoe@example.com', status: 'queued', replayed: false })
  expect(await answer('message', 'send-again', id.toUpperCase())).toMatchObject({ id: first.id, replayed: true })
  expect(await sendAgain(id)).toEqual({ status: 0, out: `It was sent again before, as ${first.id}.\n`, err: '' })
  expect((await posthorn(['message', 'show', id])).out).toMatch(new RegExp(`sent again as: +${first.id}`))
  expect((await posthorn(['message', 'show', first.id])).out).toMatch(new RegExp(`sent again for: +${id}`))
  const [row] = await db.run<object>('select actor, target from audit_log where action = $1 and workspace_id = $2', [
    'message.sent_again',
    workspace,
  ])
  expect(row).toMatchObject({ actor: expect.stringMatching(/^operator:/) as string, target: id })
  expect(await sendAgain(unknown)).toMatchObject({ status: 1, err: expect.stringContaining('too early') as string })
  expect(await sendAgain(first.id)).toMatchObject({
    status: 1,
    err: expect.stringContaining('this one is queued') as string,
  })
  expect(await sendAgain('0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4cff')).toMatchObject({ status: 1 })
  await db.run('delete from outbound where message_id = $1', [first.id])
  await db.close()
}, 180_000)

test('a webhook endpoint from its first day to its first replay, each with --json', async () => {
  const local = { POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true' }
  const webhook = async (...args: string[]): Promise<unknown> => {
    const ended = await posthorn(['webhook', ...args, '--json'], local)
    expect(ended).toMatchObject({ status: 0, err: '' })
    return JSON.parse(ended.out)
  }
  const secret = expect.stringMatching(/^whsec_[\w-]{43}$/) as string
  const set = await webhook(
    'set',
    'Shop',
    '--url',
    'http://127.0.0.1:9/hook',
    '--events',
    'message.sent,message.failed',
  )
  expect(set).toMatchObject({ state: 'active', secret, events: ['message.sent', 'message.failed'], rotating: false })
  expect(await webhook('show', 'Shop')).not.toHaveProperty('secret')
  expect(await webhook('set', 'Shop', '--url', 'http://127.0.0.1:9/other', '--events', 'all')).not.toHaveProperty(
    'secret',
  )
  expect(await webhook('rotate', 'Shop')).toMatchObject({ rotating: true, secret })
  expect(await webhook('promote', 'Shop')).toMatchObject({
    rotating: false,
    previousUntil: expect.any(String) as string,
  })
  const { eventId } = (await webhook('test', 'Shop')) as { eventId: string }
  expect(await webhook('log', 'Shop')).toMatchObject([{ id: eventId, type: 'webhook.test', state: 'waiting' }])
  expect(await webhook('log', 'Shop', '--event', eventId)).toMatchObject({ id: eventId, attempts: [] })
  expect(await webhook('replay', 'Shop', '--event', eventId)).toEqual({ replayed: 1 })
  expect(await webhook('replay', 'Shop', '--from', '2026-01-01T00:00:00Z')).toEqual({ replayed: 0 })
  expect(await webhook('disable', 'Shop')).toMatchObject({ state: 'disabled', reason: 'by_hand' })
  expect(await webhook('enable', 'Shop')).toMatchObject({ state: 'active' })
  const db = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 15_000 })
  await db.run(`update webhook_endpoints set failing_since = '2026-11-20T10:00:00Z'`)
  await db.close()
  expect((await posthorn(['webhook', 'show', 'Shop'])).out).toMatch(/^failing since: +2026-11-20T10:00:00\.000Z$/m)
  // With the development setting off, the same URL is refused with its reason.
  const refused = await posthorn(['webhook', 'set', 'Shop', '--url', 'http://127.0.0.1:9/hook'])
  expect(refused).toMatchObject({ status: 1, out: '' })
  expect(refused.err).toMatch(/"url" must begin with https/)
}, 180_000)

test('the lists tell when a key or a login was used last and when it ends, and the log of webhooks whose message an event is of', async () => {
  const { id: workspace } = await answer('workspace', 'create', '--name', 'Listed')
  const end = '2099-01-31T00:00:00.000Z'
  const [used, message] = ['2026-11-20T10:00:00.000Z', '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4cad']
  const db = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 15_000 })
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
    const env = around(database.connection)
    const ended = await new Promise((resolve) => {
      execFile('bash', ['--norc', '-c', script, command], { env }, (error, _out, said) =>
        resolve({ status: error?.code ?? 0, err: said }),
      )
    })
    expect(ended).toEqual({ status, err })
  })

  test('in a folder that was removed under the shell, a command says so, without a stack', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'posthorn-cli-'))
    const script = 'cd "$1" && rmdir "$1" && "$0" plan list'
    const env = around(database.connection)
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
    const db = openDatabase(database.connection, { name: 'test', connectionsMax: 2, answerMs: 15_000 })
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

  test('to forget an old key where there is none is no mistake, and is not said to be done', async () => {
    const { status, out } = await posthorn(['rotate-key', '--finish'])
    expect({ status, out }).toEqual({ status: 0, out: expect.stringMatching(/There is no old key/) as string })
  })

  test('a domain that was taken as verified says by whose word, until it is taken back', async () => {
    const { out } = await posthorn(['domain', 'list', 'Shop'])
    expect(out).toMatch(/^status: verified by your word, or the first start's; checks change nothing$/m)
    await answer('workspace', 'create', '--name', 'Grown')
    await answer('domain', 'add', 'Grown', 'grown.example', '--verified')
    const taken = await answer('domain', 'unvouch', 'Grown', 'grown.example')
    expect(taken).toMatchObject({ status: 'verified', vouched: false, nextCheckAt: expect.any(String) as string })
    const again = await posthorn(['domain', 'unvouch', 'Grown', 'grown.example'])
    expect([again.status, again.err]).toEqual([1, expect.stringContaining('nobody vouches')])
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

describe('where a URL leads', () => {
  test.each([
    ['postgres://u:p@db.example/mail', { host: 'db.example', port: '5432', user: 'u' }],
    [
      'postgres://u:p@db.example:6000/mail?sslmode=no-verify',
      { host: 'db.example', port: '6000', sslmode: 'no-verify' },
    ],
    ['postgres://u:p@/mail?host=/run/pg', { host: '/run/pg', port: '5432' }],
    ['postgres:///mail?host=/run/pg&user=u&port=7', { host: '/run/pg', port: '7', user: 'u' }],
    ['postgres://u:p@[::1]/mail', { host: '::1', port: '5432' }],
  ])('%s says every part', (given, parts) => {
    const completed = new URL(serverOf({ url: given }).connectionString ?? '')
    expect(Object.fromEntries(completed.searchParams)).toMatchObject(parts)
    expect(completed.pathname).toBe('/mail')
  })
})

describe('posthorn classify', () => {
  test('says what a reply means, by the command that it answered, without a database', async () => {
    const classify = async (...args: string[]) => {
      const { out } = await posthorn(['classify', ...args, '--json'], { DATABASE_URL: 'postgres://nowhere.invalid/x' })
      return JSON.parse(out) as unknown
    }
    const verdict = { class: 'bad_mailbox', event: 'hard_bounce', suppress: true, rule: 'bad-mailbox-code' }
    expect(await classify('550-5.1.1 The account\n550 5.1.1 does not exist')).toMatchObject(verdict)
    expect(await classify('--stage', 'eod', '550 no such user')).toMatchObject({ class: 'filtered', event: 'soft_bounce', suppress: false }) // prettier-ignore
    expect(await classify('--stage', 'mail', '250 ok')).toMatchObject({ class: 'information', event: null })
  })

  test('reads a report in a file, and says so where a mail reports nothing', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'posthorn-classify-'))
    const file = join(folder, 'report.eml')
    writeFileSync(file, families[0]?.mail ?? '')
    expect(await answer('classify', '--report', file)).toEqual({
      reports: [
        {
          kind: 'dsn',
          recipient: 'anna@example.org',
          action: 'failed',
          status: '5.1.1',
          class: 'bad_mailbox',
          event: 'hard_bounce',
          suppress: true,
          rule: 'bad-mailbox-code',
        },
      ],
    })
    writeFileSync(file, 'Subject: hello\n\nhello\n')
    expect(await answer('classify', '--report', file)).toEqual({ reports: [] })
    rmSync(folder, { recursive: true })
    expect(await posthorn(['classify', '--report', file])).toMatchObject({ status: 1, out: '' })
    for (const args of [[], ['--stage', 'connect', '550 x']])
      expect(await posthorn(['classify', ...args])).toMatchObject({ status: 2, out: '' })
  })
})

test('a feed is made with its secret shown once, listed without it, and removed', async () => {
  const made = await answer('feed', 'add', 'postmark')
  const { id, secret, url } = made as { id: string; secret: string; url: string }
  expect(url).toBe(`http://posthorn:${secret}@localhost:3000/feeds/${id}`)
  expect(await answer('feed', 'add', 'ses', '--topic', 'arn:aws:sns:eu-west-1:123456789012:mail')).toMatchObject({
    provider: 'ses',
    workspace: null,
  })
  const { out } = await posthorn(['feed', 'list'])
  expect(out).toContain(id)
  expect(out).not.toContain(secret)
  expect(await answer('feed', 'remove', id)).toMatchObject({ id })
  for (const args of [
    ['remove', id],
    ['remove', 'x'],
    ['add', 'mailgun', '--key-file', '/nowhere'],
  ])
    expect(await posthorn(['feed', ...args])).toMatchObject({ status: 1, out: '' })
  for (const args of [['ses'], ['mailgun'], ['postmark', '--topic', 'arn:aws:sns:eu-west-1:123456789012:mail']])
    expect(await posthorn(['feed', 'add', ...args])).toMatchObject({ status: 2, out: '' })
  expect(await answer('feed', 'list')).toHaveLength(1)
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

describe('a login', () => {
  test('is made with a password that is shown once, and given a workspace and the rights of an operator later', async () => {
    const workspace = await answer('workspace', 'create', '--name', 'People')
    const made = await answer(
      'user',
      'create',
      '--email',
      'Ann@Example.org',
      '--workspace',
      'People',
      '--role',
      'developer',
    )
    expect(made).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      email: 'Ann@example.org',
      operator: false,
      password: expect.stringMatching(/^.{20}$/) as string,
    })
    expect((await posthorn(['user', 'create', '--email', 'ann@example.org'])).err).toMatch(/already/)
    const again = await answer(
      'user',
      'create',
      '--email',
      'ann@example.org',
      '--workspace',
      String(workspace['id']),
      '--role',
      'owner',
      '--operator',
    )
    expect(again).toEqual({ id: made['id'], email: 'Ann@example.org', operator: true })
    const anew = await answer('user', 'reset', 'ann@example.org')
    expect(anew).toEqual({ ...again, password: expect.stringMatching(/^.{20}$/) as string })
    expect(await answer('user', 'set', 'ann@example.org', '--operator', 'false')).toEqual({ ...again, operator: false })
    const listed = await posthorn(['user', 'list'])
    expect(listed.out).toMatch(
      /^EMAIL +OPERATOR +SECOND FACTOR +WORKSPACES +LAST SIGN-IN\nAnn@example.org +no +no +People \(owner\) +never\n/,
    )
    expect((await posthorn(['user', 'remove', 'ann@example.org'])).err).toContain('is the only owner of "People"')
    const second = ['user', 'create', '--email', 'cy@example.org', '--workspace', 'People']
    const guessed = await posthorn(second)
    expect([guessed.status, guessed.out]).toEqual([2, ''])
    expect(guessed.err).toMatch(/--workspace needs --role.*: owner, admin, developer, viewer\n/)
    expect((await posthorn([...second, '--role', 'owner'])).out).toMatch(
      /^workspace: +People\nrole: +owner\npassword: /m,
    )
    expect(await answer('user', 'remove', 'ann@example.org')).toMatchObject({ id: made['id'] })
    expect((await posthorn(['user', 'reset', 'ann@example.org'])).err).toContain('There is no user "ann@example.org"')
  })

  test('needs an address, a workspace for a role, and a role for a workspace', async () => {
    expect((await posthorn(['user', 'create'])).status).toBe(2)
    expect((await posthorn(['user', 'create', '--email', 'no address'])).status).toBe(1)
    expect((await posthorn(['user', 'create', '--email', 'a@b.co', '--role', 'owner'])).err).toMatch(/--workspace/)
    expect((await posthorn(['user', 'create', '--email', 'a@b.co', '--role', 'king'])).status).toBe(2)
  })
})

test('every change is in the audit log under the name of whoever is at the keyboard, and no secret is', async () => {
  const ran = async (...args: string[]) => (await answer(...args)) as Record<string, string>
  const { id: workspace } = await ran('workspace', 'create', '--name', 'Watched')
  await ran('workspace', 'set', 'Watched', '--route', 'smtp://user:hidden@relay.example:25', '--keep-content', 'false')
  await ran('domain', 'add', 'Watched', 'watched.example')
  await ran('domain', 'rotate-dkim', 'Watched', 'watched.example')
  const beside = await answer('domain', 'rotate-dkim', 'Watched', 'watched.example', '--ed25519')
  expect(JSON.stringify(beside)).toContain('v=DKIM1; k=ed25519; p=')
  expect(JSON.stringify(await answer('domain', 'end-ed25519', 'Watched', 'watched.example'))).not.toContain('k=ed25519')
  const mailbox = await ran('mailbox', 'add', 'Watched', 'a@watched.example')
  await ran('mailbox', 'set', String(mailbox['id']).toUpperCase(), '--status', 'disabled')
  expect(await ran('mailbox', 'remove', String(mailbox['id']).toUpperCase())).toEqual({ removed: 'a@watched.example' })
  const gone = await posthorn(['mailbox', 'remove', String(mailbox['id'])])
  expect([gone.status, gone.err]).toEqual([1, expect.stringContaining('There is no mailbox')])
  expect(await ran('domain', 'remove', 'Watched', 'Watched.example')).toEqual({ removed: 'watched.example' })
  const key = await ran('key', 'create', 'Watched', '--name', 'k', '--scope', 'mail.send')
  await ran('key', 'revoke', String(key['id']).toUpperCase())
  const login = await ran('smtp-credential', 'create', 'Watched')
  await ran('smtp-credential', 'revoke', String(login['id']))
  const user = await ran('user', 'create', '--email', 'bo@example.org', '--workspace', 'Watched', '--role', 'viewer')
  await ran('plan', 'set', 'watched', '--hourly', '3')
  await ran('destination', 'set', 'watched.example', '--connections', '4')
  await ran('destination', 'remove', 'watched.example')
  const feed = await ran('feed', 'add', 'postmark')
  await ran('feed', 'remove', String(feed['id']))
  await ran('drain', '--no-wait')
  await ran('drain', '--off')
  await ran('recover', '--resume')

  const db = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 10_000 })
  try {
    type Row = { actor: string; action: string; target: string | null; facts: object | null }
    const select = 'select actor, action, target, facts from audit_log'
    const inside = await db.run<Row>(`${select} where workspace_id = $1 order by id`, [workspace])
    expect(inside.map(({ action, target }) => [action, target])).toEqual([
      ['workspace.changed', workspace],
      ['domain.added', 'watched.example'],
      ['domain.dkim_prepared', 'watched.example'],
      ['domain.dkim_prepared', 'watched.example'],
      ['domain.dkim_ended', 'watched.example'],
      ['mailbox.added', 'a@watched.example'],
      ['mailbox.changed', 'a@watched.example'],
      ['mailbox.removed', 'a@watched.example'],
      ['domain.removed', 'watched.example'],
      ['key.created', key['id']],
      ['key.revoked', key['id']],
      ['smtp_credential.created', login['id']],
      ['smtp_credential.revoked', login['id']],
      ['user.created', 'bo@example.org'],
    ])
    expect(inside[0]?.facts).toEqual({ route: 'smtp://relay.example:25', keepsContent: false })
    const beside = await db.run<Row>(`${select} where workspace_id is null order by id`)
    for (const [action, target] of [
      ['workspace.created', workspace],
      ['plan.changed', 'watched'],
      ['destination.changed', 'watched.example'],
      ['destination.removed', 'watched.example'],
      ['feed.added', feed['id']],
      ['feed.removed', feed['id']],
      ['delivery.drained', null],
      ['delivery.resumed', null],
      ['delivery.recovered', null],
    ])
      expect(beside).toContainEqual(expect.objectContaining({ action, target }))
    const all = [...inside, ...beside]
    expect(new Set(all.map(({ actor }) => actor))).toEqual(new Set([`operator:${userInfo().username}`]))
    for (const secret of [key['key'], login['password'], user['password'], feed['secret'], 'hidden'])
      expect(JSON.stringify(all)).not.toContain(secret)
  } finally {
    await db.close()
  }
}, 180_000)

test('what was added says what comes next, and what is kept says for how long', async () => {
  const made = await posthorn(['workspace', 'create', '--name', 'Ann & Co'], { POSTHORN_KEEP_CONTENT_DAYS: '3' })
  expect(made.out).toMatch(/^content: +kept for 3 days after a message is final$/m)
  const pending = await posthorn(['domain', 'add', 'Ann & Co', 'next.example'], { POSTHORN_HOSTNAME: 'vm' })
  expect(pending.out).toContain('POSTHORN_HOSTNAME must be set first: the record names "vm"')
  expect(pending.out).toMatch(/^CNAME +bounces\.next\.example +pending +not yet: see below$/m)
  expect(pending.out).toMatch(
    /Next, publish .*:\n {2}posthorn domain check 'Ann & Co' next\.example\n {2}posthorn mailbox add 'Ann & Co' hello@next\.example\n$/,
  )
  // As its zone takes them: a string there has at most 255 characters, and the DKIM key more. What waits for the host name is not among them.
  const zone = pending.out.split('\n').filter((line) => / 3600 IN (?:TXT|CNAME) /.test(line))
  expect(zone.map((line) => line.split(' ')[0])).toEqual([
    '_posthorn.next.example.',
    expect.stringMatching(/^ph\d{6}-[a-z2-7]{4}\._domainkey\.next\.example\.$/),
    '_dmarc.next.example.',
  ])
  const strings = [...(zone[1] ?? '').matchAll(/"([^"]*)"/g)].map(([, each]) => each ?? '')
  expect(strings.map(({ length }) => length)).toEqual([255, expect.any(Number)])
  expect(pending.out).toContain(` ${strings.join('')}\n`)
  const vouched = await posthorn(['domain', 'add', 'Ann & Co', 'word.example', '--verified'], {
    POSTHORN_HOSTNAME: 'mail.example.org',
  })
  expect(vouched.out).not.toContain('POSTHORN_HOSTNAME')
  expect(vouched.out).toMatch(
    /\n\nNext, an address to send from:\n {2}posthorn mailbox add 'Ann & Co' hello@word\.example\n$/,
  )
  const dropped = await posthorn(['workspace', 'set', 'Ann & Co', '--keep-content', 'false'])
  expect(dropped.out).toMatch(/^content: +dropped as soon as a message is final$/m)
}, 180_000)

test('one message that waits is no plural', async () => {
  const { id: workspace } = await answer('workspace', 'create', '--name', 'Waiting')
  const db = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 10_000 })
  const waits = '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c03'
  await db.run(
    `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
     values ($1, $2, $1, 'rest', 'queued', 1, 's@example.org', 'a@example.com', 'a@example.com', 'Hi', 'n1', now())`,
    [workspace, waits],
  )
  await db.run(
    `insert into outbound (workspace_id, message_id, mailbox_id, status, destination, due_at, expires_at)
     values ($1, $2, $1, 'queued', 'example.com', now(), now() + interval '1 hour')`,
    [workspace, waits],
  )
  try {
    expect((await posthorn(['drain'])).out).toBe('Nothing is in flight; 1 message waits for: posthorn drain --off\n')
    expect((await posthorn(['drain', '--off'])).out).toBe('Delivery goes on; 1 message is waiting.\n')
  } finally {
    await db.run('delete from outbound where message_id = $1', [waits])
    await db.close()
  }
}, 180_000)

test('suppressions are taken from a pipe too', async () => {
  await answer('workspace', 'create', '--name', 'Piped')
  const { status, out, err } = await posthorn(
    ['suppression', 'import', 'Piped', '-'],
    {},
    'ada@example.org\nbob@example.org\n',
  )
  expect({ status, err }).toEqual({ status: 0, err: '' })
  expect(out).toContain('2 added, 0 already there.\n')
  expect(out).toContain('--reason hard_bounce (or complaint)')
  const bounces = 'status,reason,email,created\n5.1.1,550 5.1.1 no,cee@example.org,1443651141\n'
  const go = (...more: string[]) => posthorn(['suppression', 'import', 'Piped', '-', ...more], {}, bounces)
  expect((await go()).err).toContain('line 2: the reason "550 5.1.1 no" is no word for')
  expect((await go('--reason', 'hard_bounce', '--dry-run')).out).toBe(
    '1 would be added, 0 are already there. Nothing was written.\nLines by reason: hard_bounce 1, complaint 0, manual 0.\nColumns that were not read: status.\n',
  )
  const listed = await posthorn(['suppression', 'export', 'Piped'])
  expect(listed.out).not.toContain('cee')
  expect(listed.out).toMatch(/ada@example\.org[^]*bob@example\.org/)
}, 180_000)

describe('in a data folder without a database', () => {
  const folder = mkdtempSync(join(tmpdir(), 'posthorn-cli-'))
  const dataDir = join(folder, 'data')
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
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

test('who takes back one of two stops is told of the other one', async () => {
  const db = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 15_000 })
  await db.run(`select stop_delivery_1('fence', 'behind', null)`)
  await db.close()
  await posthorn(['drain', '--no-wait'])
  const off = await posthorn(['drain', '--off'])
  expect(off.out).toMatch(/^The drain is over; delivery is still stopped \(fence: behind\)/)
  expect(await answer('drain', '--off')).toMatchObject({ draining: false, stoppedBy: ['fence: behind'] })
  await posthorn(['drain', '--no-wait'])
  const recovered = await posthorn(['recover', '--resume'])
  expect(recovered.out).toMatch(/delivery is still stopped by: +drain: operator/)
  expect(await answer('recover', '--resume')).toMatchObject({ stoppedBy: [], stillStoppedBy: ['drain: operator'] })
  expect((await posthorn(['drain', '--off'])).out).toMatch(/^Delivery goes on/)
}, 180_000)
