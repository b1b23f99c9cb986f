// What operators change is written down like what everybody else does.
import { userInfo } from 'node:os'
import { expect, test } from 'vitest'
import { commandsOver } from './command.test-kit.ts'

const over = commandsOver()
const { posthorn, answer } = over

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

  const db = over.open()
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
