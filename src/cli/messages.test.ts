// `posthorn message`: the one that is looked for is found, and what failed is sent again.
import { expect, test } from 'vitest'
import { commandsOver } from './command.test-kit.ts'

const over = commandsOver()
const { posthorn, answer } = over

test('the message that an operator looks for is found by what is known of it', async () => {
  const { id: workspace } = await answer('workspace', 'create', '--name', 'Sought')
  const [sent, waits] = ['0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c01', '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c02']
  const db = over.open()
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
  const db = over.open()
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
