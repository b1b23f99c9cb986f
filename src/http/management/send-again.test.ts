// Sending again what failed, or what nobody can know about: one new message, once, and never where that could make two of one.
import { beforeAll, describe, expect, test } from 'vitest'
import { limits } from '../../config.ts'
import type { MessageId, WorkspaceId } from '../../domain/message.ts'
import { isRefusal } from '../../domain/refusal.ts'
import type { Submission } from '../../domain/submission.ts'
import { scopes } from '../../domain/scopes.ts'
import { parseAddress, type EmailAddress } from '../../mail/address.ts'
import { isMailMistake, readSubmittedMail } from '../../mail/submitted-mail.ts'
import type { Db } from '../../store/database.ts'
import { readReplaceable } from '../../store/sent-again.ts'
import { sendAgain } from '../../workspace/workspace.ts'
import { audit, begin, office, owner, send, shop } from './shop.test-kit.ts'

describe('sending a message again', () => {
  beforeAll(begin)
  const unknown = async (recipient = 'ann@example.org'): Promise<string> => {
    const file = { filename: 'a.txt', contentBase64: 'QUJD' }
    return lost(await send(recipient, { attachments: [file], metadata: { order: '7' } }))
  }
  /** Its final dot was written, and no reply came. */
  const lost = async (id: string): Promise<string> => {
    await office.world.db.run('delete from outbound where message_id = $1', [id])
    await office.world.db.run(`update messages set status = 'sending' where id = $1`, [id])
    await office.world.db.run(
      `update messages set status = 'delivery_unknown', finished_at = app_now(), armed_epoch = 1, armed_token = 7 where id = $1`,
      [id],
    )
    return id
  }
  const later = async <T>(seconds: number, work: () => Promise<T>): Promise<T> => {
    await office.world.setClock(new Date(Date.now() + seconds * 1000).toISOString())
    try {
      return await work()
    } finally {
      await office.world.setClock()
    }
  }
  const again = (id: string) => owner.ask('POST', `/messages/${id}/send-again`)
  const story = (id: string) => owner.ask('GET', `/messages/${id}/timeline`)
  const messages = () =>
    office.world.value<number>('select count(*)::integer from messages where workspace_id = $1', [shop.workspaceId])

  test('waits until no worker can still hold its socket', async () => {
    const id = await unknown()
    const before = await messages()
    const answer = await again(id)
    expect(answer.statusCode).toBe(409)
    expect(answer.json<{ error: string }>().error).toMatch(/too early/)
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(limits.sendAgainGraceSeconds - 60)
    // Nor does the transaction let it, whoever asks.
    const admitted = office.world.db.run(
      `insert into idempotency_keys (workspace_id, endpoint, key, body_hash, message_id) values ($1, 'send_again', $2, '', $3)`,
      [shop.workspaceId, `${id}+${limits.sendAgainGraceSeconds}`, id],
    )
    await expect(admitted).rejects.toThrow('may not be sent again')
    expect(await messages()).toBe(before)
    // What the page of the message says of it.
    const { sendAgainAt } = (await owner.ask('GET', `/messages/${id}/timeline`)).json<{ sendAgainAt?: string }>()
    const finishedAt = await office.world.value<Date>('select finished_at from messages where id = $1', [id])
    expect(sendAgainAt).toBe(new Date(finishedAt.getTime() + limits.sendAgainGraceSeconds * 1000).toISOString())
  })

  test('makes one new message with its own id, however often and however many at once ask', async () => {
    const id = await unknown()
    const before = await messages()
    const answers = await later(limits.sendAgainGraceSeconds + 60, () => Promise.all([again(id), again(id), again(id)]))
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([202, 202, 202])
    const made = new Set(answers.map((answer) => answer.json<{ id: string }>().id))
    expect(made.size).toBe(1)
    expect(made.has(id)).toBe(false)
    expect(await messages()).toBe(before + 1)
    const [newId] = [...made]
    expect(answers.filter((answer) => answer.headers['idempotent-replayed'] === 'true')).toHaveLength(2)
    const told = (await owner.ask('GET', `/messages/${id}/timeline`)).json<object>()
    expect(told).toMatchObject({ processingStatus: 'delivery_unknown', sentAgainAs: newId })
    expect(told).not.toHaveProperty('sendAgainAt')
    expect((await story(newId ?? '')).json()).toMatchObject({
      sentAgainFor: id,
      sentAgainForStatus: 'delivery_unknown',
      processingStatus: 'queued',
      message: { metadata: { order: '7' }, bodyText: 'Good morning', recipient: 'ann@example.org' },
    })
    const files = await office.world.value<string>(
      `select string_agg(convert_from(b.bytes, 'UTF8'), '') from attachments a join blobs b on b.id = a.blob_id where a.message_id = $1`,
      [newId],
    )
    expect(files).toBe('ABC')
    expect((await audit()).filter((line) => line.startsWith('message.sent_again'))).toHaveLength(1)
  })

  /** What is answered before that change is committed, and behind it. */
  const whileOnItsWay = async (change: string, id: string): Promise<string[]> => {
    const session = await office.world.holding(change, [id])
    const before = await again(id)
    await session.query('commit')
    return [before, await again(id)].map((answer) => answer.json<{ code: string }>().code)
  }

  test('is not done while late proof is on its way, nor behind it', async () => {
    const id = await unknown()
    const before = await messages()
    const proven = `update messages set status = 'sent', armed_epoch = null, armed_token = null where id = $1`
    const answers = await later(limits.sendAgainGraceSeconds + 60, () => whileOnItsWay(proven, id))
    expect(answers).toEqual(['service_unavailable', 'conflict'])
    expect(await messages()).toBe(before)
  })

  test('is for those that failed or are unknown alone', async () => {
    const id = await send('bob@example.org')
    const changed = (set: string) => office.world.db.run(`update messages set ${set} where id = $1`, [id])
    const refusedAs = async (state: string) => {
      const answer = await again(id)
      expect([answer.statusCode, answer.json<{ error: string }>().error]).toEqual([
        409,
        expect.stringContaining(`this one is ${state}`),
      ])
      expect((await story(id)).json()).not.toHaveProperty('sendAgainAt')
    }
    await refusedAs('queued')
    await changed(`status = 'sending'`)
    await refusedAs('sending')
    await changed(`status = 'retrying'`)
    await refusedAs('retrying')
    await changed(`status = 'sending'`)
    await changed(`status = 'sent', finished_at = app_now()`)
    await refusedAs('sent')
  })

  describe('that failed', () => {
    const failed = async (recipient = 'ann@example.org', more: object = {}): Promise<string> => {
      const id = await send(recipient, more)
      await office.world.db.run('delete from outbound where message_id = $1', [id])
      await office.world.db.run(
        `update messages set status = 'failed', finished_at = app_now(), delivery_rank = 3, error_message = '552 5.2.2 Mailbox full' where id = $1`,
        [id],
      )
      return id
    }
    const charged = () =>
      office.world.value<number>('select month_count from usage where workspace_id = $1', [shop.workspaceId])

    test('is done at once, and makes one new message, however often and however many at once ask; each names the other', async () => {
      const id = await failed('ann@example.org', { expiresAt: new Date(Date.now() + 24 * 3600_000).toISOString() })
      const [before, chargedBefore] = [await messages(), await charged()]
      const finishedAt = await office.world.value<Date>('select finished_at from messages where id = $1', [id])
      expect((await story(id)).json()).toMatchObject({ sendAgainAt: finishedAt.toISOString() })
      const other = await office.signedIn('developer', shop.workspaceId)
      const answers = await Promise.all([again(id), again(id), other.ask('POST', `/messages/${id}/send-again`)])
      answers.push(await again(id))
      expect(answers.map(({ statusCode }) => statusCode)).toEqual([202, 202, 202, 202])
      const made = new Set(answers.map((answer) => answer.json<{ id: string }>().id))
      expect(made.size).toBe(1)
      const [newId = ''] = [...made]
      expect([await messages(), await charged()]).toEqual([before + 1, chargedBefore + 1])
      const told = (await story(id)).json<object>()
      expect(told).toMatchObject({ processingStatus: 'failed', sentAgainAs: newId })
      expect(told).not.toHaveProperty('sendAgainAt')
      const follower = (await story(newId)).json<{ message: object; events: { type: string }[] }>()
      expect(follower).toMatchObject({
        sentAgainFor: id,
        sentAgainForStatus: 'failed',
        processingStatus: 'queued',
        deliveryStatus: 'pending',
        message: { bodyText: 'Good morning', recipient: 'ann@example.org' },
      })
      expect(follower.events.map(({ type }) => type)).toEqual(['message.queued'])
      // When to give up was said of the first.
      expect(follower.message).not.toHaveProperty('expiresAt')
      const written = `select count(*)::integer from audit_log where action = 'message.sent_again' and target = $1`
      expect(await office.world.value(written, [id])).toBe(1)
    })

    test('holds the files of one message at a time, however many of a workspace are asked for, and those of another beside', async () => {
      const file = { attachments: [{ filename: 'a.txt', contentBase64: 'QUJD' }] }
      const ids = [await failed('ann@example.org', file), await failed('bob@example.org', file)]
      const other = await office.sender()
      const key = await office.key(other.workspaceId, ...scopes)
      const body = { mailboxId: other.mailboxId, recipient: 'ann@example.org', subject: 's', bodyText: 'b', ...file }
      const theirs = (await office.withKey(key, 'POST', '/send', body)).json<{ id: string }>().id
      await office.world.db.run('delete from outbound where message_id = $1', [theirs])
      await office.world.db.run(`update messages set status = 'failed', finished_at = app_now() where id = $1`, [
        theirs,
      ])
      const held: string[] = []
      const releases: (() => void)[] = []
      const { accept, acceptMail } = office.office
      const slow = async (submission: Submission) => {
        held.push(submission.workspaceId)
        await new Promise<void>((resolve) => releases.push(resolve))
        return accept(submission)
      }
      const ask = (workspaceId: WorkspaceId, id = '') =>
        sendAgain(
          { db: office.world.db, accept: slow, acceptMail },
          { workspaceId, actor: 'operator:test', scopes: new Set<string>() },
          id as MessageId,
        )
      const ours = ids.map((id) => ask(shop.workspaceId, id))
      const beside = ask(other.workspaceId, theirs)
      await expect.poll(() => held.length).toBe(2)
      expect(new Set(held)).toEqual(new Set([shop.workspaceId, other.workspaceId]))
      for (const release of releases.splice(0)) release()
      expect(isRefusal(await beside)).toBe(false)
      await expect.poll(() => held.length).toBe(3)
      for (const release of releases) release()
      expect((await Promise.all(ours)).map(isRefusal)).toEqual([false, false])
    })

    test('stands in the audit log with who asked also where the process is gone right behind the admission', async () => {
      const id = await failed()
      const { accept, acceptMail } = office.office
      const gone = async (submission: Submission) => {
        expect(isRefusal(await accept(submission))).toBe(false)
        throw new Error('gone')
      }
      const actor = `user:${owner.login.id}`
      const by = { workspaceId: shop.workspaceId, actor, scopes: new Set<string>() }
      await expect(sendAgain({ db: office.world.db, accept: gone, acceptMail }, by, id as MessageId)).rejects.toThrow(
        'gone',
      )
      expect((await story(id)).json()).toHaveProperty('sentAgainAs')
      const asked = `select actor from audit_log where action = 'message.send_again_asked' and target = $1`
      expect(await office.world.value(asked, [id])).toBe(actor)
    })

    test('is not told to be done already while its follower may lack a synchronous standby', async () => {
      const id = await failed()
      expect((await again(id)).statusCode).toBe(202)
      const { accept, acceptMail } = office.office
      let isAway = true
      const db: Db = {
        ...office.world.db,
        rows: (statement, values) =>
          isAway && statement.name === 'prove-commit' ? Promise.resolve([]) : office.world.db.rows(statement, values),
      }
      const by = { workspaceId: shop.workspaceId, actor: `user:${owner.login.id}`, scopes: new Set<string>() }
      const ask = () => sendAgain({ db, accept, acceptMail }, by, id as MessageId)
      await expect(ask()).rejects.toThrow('commits wait for a synchronous standby')
      isAway = false
      expect(await ask()).toMatchObject({ replayed: true })
    })

    test('a follower that fails, too, can be sent again itself', async () => {
      const first = await failed()
      const second = (await again(first)).json<{ id: string }>().id
      await office.world.db.run('delete from outbound where message_id = $1', [second])
      await office.world.db.run(`update messages set status = 'failed', finished_at = app_now() where id = $1`, [
        second,
      ])
      const third = (await again(second)).json<{ id: string }>().id
      expect(new Set([first, second, third]).size).toBe(3)
      expect((await again(first)).json()).toMatchObject({ id: second })
    })

    test('is refused like any other: suppressed, blocked, without its mailbox or its content', async () => {
      const id = await failed('dora@example.org')
      const before = await messages()
      await owner.ask('POST', '/suppressions', { body: { recipient: 'dora@example.org' } })
      expect((await again(id)).json()).toMatchObject({ code: 'recipient_suppressed' })
      await owner.ask('DELETE', '/suppressions/dora%40example.org')
      await office.world.db.run(`update mailboxes set status = 'disabled' where id = $1`, [shop.mailboxId])
      expect((await again(id)).json()).toMatchObject({ code: 'mailbox_not_active' })
      await office.world.db.run(`update mailboxes set status = 'active' where id = $1`, [shop.mailboxId])
      await office.world.db.run('delete from contents where message_id = $1', [id])
      expect((await again(id)).json()).toMatchObject({
        code: 'conflict',
        error: expect.stringMatching(/not there any more/) as string,
      })
      expect((await story(id)).json()).not.toHaveProperty('sendAgainAt')
      expect(await messages()).toBe(before)
    })

    test.each([
      ['delivered', 2],
      ['complaint', 5],
    ])('is not sent again where a report says that it came all the same: %s', async (_, rank) => {
      const id = await failed()
      await office.world.db.run('update messages set delivery_rank = $2 where id = $1', [id, rank])
      expect((await again(id)).json()).toMatchObject({
        code: 'conflict',
        error: expect.stringMatching(/came all the same/) as string,
      })
      expect((await story(id)).json()).not.toHaveProperty('sendAgainAt')
    })

    test('is not done while that report is on its way, nor behind it', async () => {
      const id = await failed()
      const before = await messages()
      const answers = await whileOnItsWay('update messages set delivery_rank = 2 where id = $1', id)
      expect(answers).toEqual(['service_unavailable', 'conflict'])
      expect(await messages()).toBe(before)
    })

    test('by late proof, after it was sent again as unknown, is not sent a second time', async () => {
      const id = await unknown()
      const first = (await later(limits.sendAgainGraceSeconds + 60, () => again(id))).json<{ id: string }>()
      const proven = `armed_epoch = null, armed_token = null, finished_at = app_now()`
      await office.world.db.run(`update messages set status = 'failed', ${proven} where id = $1`, [id])
      const answer = await again(id)
      expect(answer.headers['idempotent-replayed']).toBe('true')
      expect(answer.json()).toMatchObject({ id: first.id })
      expect((await story(first.id)).json()).toMatchObject({ sentAgainFor: id, sentAgainForStatus: 'failed' })
    })

    test('by late proof, before anybody sent it again, is sent again without waiting', async () => {
      const id = await unknown()
      const proven = `armed_epoch = null, armed_token = null, finished_at = app_now()`
      await office.world.db.run(`update messages set status = 'failed', ${proven} where id = $1`, [id])
      expect((await again(id)).statusCode).toBe(202)
    })
  })

  describe('that came over SMTP', () => {
    const head =
      'From: post@w.example\r\nSubject: Hi\r\nDate: Sat, 21 Nov 2026 09:30:00 +0000\r\nMessage-ID: <own@w.example>\r\n'
    const plain = Buffer.from(`${head}\r\nGood\r\n.morning\r\n`)
    const submitted = async (content: Buffer, recipients = ['ann@example.org']): Promise<string[]> => {
      const mail = readSubmittedMail(content, true, Date.now())
      if (isMailMistake(mail)) throw new Error(mail.words)
      const answer = await office.office.acceptMail({
        workspaceId: shop.workspaceId,
        mailboxId: shop.mailboxId,
        recipients: recipients.map((text) => parseAddress(text) as EmailAddress),
        scanned: content,
        content: mail.content,
        lacks: mail.lacks,
        senderDomain: 'w.example',
        subject: mail.subject,
        metadata: { order: '8' },
        until: performance.now() + 600_000,
      })
      if (isRefusal(answer)) throw new Error(answer.words)
      return [...answer.ids]
    }
    /** What a worker would read, sign and send. */
    const keptMail = async (id: string) => {
      const read = await readReplaceable(office.world.db, shop.workspaceId, id as MessageId, 0)
      return { source: read?.source, mail: (await read?.mail())?.toString('latin1') }
    }
    const afterGrace = <T>(work: () => Promise<T>) => later(limits.sendAgainGraceSeconds + 60, work)
    const used = () =>
      office.world.value<number>('select month_count from usage where workspace_id = $1', [shop.workspaceId])

    const mails: [string, Buffer, string[]][] = [
      ['a small one', plain, ['ann@example.org']],
      [
        'without Date and Message-ID',
        Buffer.from('From: post@w.example\r\nSubject: Hi\r\n\r\nGood\r\n'),
        ['ann@example.org'],
      ],
      [
        'no UTF-8',
        Buffer.from(`${head}Content-Transfer-Encoding: 8bit\r\n\r\nGr\u00fc\u00dfe\r\n`, 'latin1'),
        ['ann@example.org'],
      ],
      [
        'a big one for two',
        Buffer.from(`${head}\r\n${'All work and no play\r\n'.repeat(8_000)}`),
        ['ann@example.org', 'bob@example.org'],
      ],
    ]
    test.each(mails)('goes out as it was kept, its Message-ID too: %s', async (_name, content, recipients) => {
      const [first = ''] = await submitted(content, recipients)
      await lost(first)
      const before = await used()
      const answers = await afterGrace(() => Promise.all([again(first), again(first)]))
      expect(answers.map(({ statusCode }) => statusCode)).toEqual([202, 202])
      const made = new Set(answers.map((answer) => answer.json<{ id: string }>().id))
      expect(made.size).toBe(1)
      const [id = ''] = [...made]
      expect(await keptMail(id)).toEqual(await keptMail(first))
      expect(await keptMail(id)).toMatchObject({ source: 'smtp' })
      expect((await keptMail(id)).mail?.endsWith(content.toString('latin1'))).toBe(true)
      expect(await used()).toBe(before + 1)
      expect((await owner.ask('GET', `/messages/${id}/timeline`)).json()).toMatchObject({
        sentAgainFor: first,
        message: { recipient: 'ann@example.org', subject: 'Hi', metadata: { order: '8' } },
      })
      // Its content is its own: it stays when that of the first goes.
      await office.world.db.run('delete from attachments where message_id = $1', [first])
      expect((await keptMail(id)).mail).toContain('From: post@w.example')
    })

    test('is scanned anew, with the signatures of today', async () => {
      const [id = ''] = await submitted(plain)
      await lost(id)
      const eicar = Buffer.from(
        'WDVPIVAlQEFQWzRcUFpYNTQoUF4pN0NDKTd9JEVJQ0FSLVNUQU5EQVJELUFOVElWSVJVUy1URVNULUZJTEUhJEgrSCo=',
        'base64',
      )
      await office.world.db.run('update contents set body_text = $2 where message_id = $1', [
        id,
        `${head}Content-Type: application/octet-stream; name=a.com\r\nContent-Transfer-Encoding: base64\r\n\r\n${eicar.toString('base64')}\r\n`,
      ])
      const before = await messages()
      expect((await afterGrace(() => again(id))).json()).toMatchObject({ code: 'attachment_infected' })
      expect(await messages()).toBe(before)
    })

    test('is refused like any other: too early, suppressed, over quota, without its content', async () => {
      const [id = ''] = await submitted(plain, ['carol@example.org'])
      await lost(id)
      const before = await messages()
      expect((await again(id)).json()).toMatchObject({ code: 'conflict' })
      await owner.ask('POST', '/suppressions', { body: { recipient: 'carol@example.org' } })
      expect((await afterGrace(() => again(id))).json()).toMatchObject({ code: 'recipient_suppressed' })
      await owner.ask('DELETE', '/suppressions/carol%40example.org')
      await office.world.db.run(`insert into plans (name, monthly) values ('one', 1)`)
      await office.world.db.run(`update workspaces set plan = 'one' where id = $1`, [shop.workspaceId])
      expect((await afterGrace(() => again(id))).json()).toMatchObject({ code: 'monthly_limit_reached' })
      await office.world.db.run(`update workspaces set plan = 'unlimited' where id = $1`, [shop.workspaceId])
      await office.world.db.run('delete from contents where message_id = $1', [id])
      expect((await afterGrace(() => again(id))).json<{ error: string }>().error).toMatch(/expired/)
      expect(await messages()).toBe(before)
    })
  })

  test('asked again after its key was forgotten, it still answers the first result', async () => {
    const id = await unknown()
    const first = await later(limits.sendAgainGraceSeconds + 60, () => again(id))
    await office.world.db.run('delete from idempotency_keys where workspace_id = $1', [shop.workspaceId])
    const second = await later(limits.sendAgainGraceSeconds + 60, () => again(id))
    expect(second.headers['idempotent-replayed']).toBe('true')
    expect(second.json<{ id: string }>().id).toBe(first.json<{ id: string }>().id)
  })

  test('is charged, and refused like any other: suppressed, blocked, without a plan', async () => {
    const id = await unknown('blocked@example.org')
    await owner.ask('POST', '/suppressions', { body: { recipient: 'blocked@example.org' } })
    expect((await later(2_000, () => again(id))).statusCode).toBe(422)
    await office.world.db.run(`update workspaces set status = 'blocked' where id = $1`, [shop.workspaceId])
    expect((await later(2_000, () => again(id))).json()).toMatchObject({ code: 'workspace_blocked' })
    await office.world.db.run(`update workspaces set status = 'active', plan = 'free' where id = $1`, [
      shop.workspaceId,
    ])
    expect((await later(2_000, () => again(id))).json()).toMatchObject({
      code: 'upgrade_required',
      upgradeUrl: 'http://localhost:3000/upgrade',
    })
  })
})
