// The queue's statements on real PostgreSQL: claim, arm, finish and reap against each other, as the model checker left them
// (delivery-semantics, "What breaks it"). Where two sessions meet, one is held by a lock until the other has done its part.
import { randomUUID } from 'node:crypto'
import type { Client } from 'pg'
import { beforeEach, describe, expect, test } from 'vitest'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { openDatabase, type Db, type Statement } from './database.ts'
import {
  extendLeases,
  extendLocked,
  hastenPutOff,
  makeRecorder,
  reap,
  type Armable,
  type Ending,
  type Recorder,
} from './outbound.ts'
import { makeAdmitter } from './admit.ts'
import { claimDue } from './claim.ts'
import { storeWorld, wholeClaim, type ClaimedAs, type Sender } from './store.test-kit.ts'

let sender: Sender
const world = await storeWorld()
const node = await world.node()
const recorder = makeRecorder(world.db, world.db, node)
beforeEach(async () => {
  sender = await world.sender()
})

const triesMax = 10
const one = async (as: ClaimedAs = {}): Promise<Armable> => (await world.claimed(sender, [as]))[0] as Armable
const queueRow = async (claim: Armable) =>
  (
    await world.db.run<{
      status: string
      armed_epoch: number | null
      attempts: number
      evidence: string | null
      due_in: number
    }>(
      `select status, armed_epoch, attempts, evidence, round(extract(epoch from due_at - app_now()))::integer due_in
       from outbound where message_id = $1`,
      [claim.id],
    )
  )[0]
const record = async (claim: Armable) =>
  (await world.db.run<Record<string, unknown>>('select * from messages where id = $1', [claim.id]))[0]
const attemptsOf = (claim: Armable) =>
  world.db.run('select epoch, outcome, facts from attempts where message_id = $1 order by epoch', [claim.id])
const suppressed = (address: string, of = sender) =>
  world.db.run(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason) values ($1, lower($2), $2, 'manual')`,
    [of.workspaceId, address],
  )
const own = () => [sender.workspaceId]
const suppressions = () =>
  world.db.run('select recipient_key, reason, source_message_id from suppressions where workspace_id = $1', own())
const disable = () => world.db.run(`update mailboxes set status = 'disabled' where workspace_id = $1`, own())
/** The attempt's record of a reply to the dot. */
const reply = (code: number) => ({ attempt: 1, phase: 'eod', smtp: { host: 'mx.example.org', stage: 'eod', code } })
const codes = { sent: 250, failed: 550, retrying: 450, delivery_unknown: 250 } as const
const ending = (claim: Armable, status: Ending['status'], more: Partial<Ending> = {}): Ending => ({
  ...claim,
  workspaceId: sender.workspaceId,
  status,
  usesTry: true,
  outcome: status,
  attempt: reply(codes[status]),
  event: { attempt: 1 },
  ...more,
})
const bounce = { class: 'no_such_user', permanent: true, final: true, rule: 'rcpt-5.1.1', source: 'smtp' }
const delivered: Ending['report'] = { type: 'delivered', rank: 2, detail: '250 ok', suppress: false, facts: {} }
const hardBounce: Ending['report'] = {
  type: 'hard_bounce',
  rank: 4,
  detail: '550 5.1.1 no such user',
  bounce,
  suppress: true,
  facts: { bounce, suppressed: true },
}
const softBounce: Ending['report'] = {
  type: 'soft_bounce',
  rank: 1,
  detail: '451 4.3.0 not now',
  bounce: { ...bounce, permanent: false, final: false },
  suppress: false,
  facts: { bounce: { ...bounce, permanent: false, final: false } },
}

/** The recorder's own statement, over a session that can be watched. */
const armOver = (session: Client, { id, epoch, token, recipientKey }: Armable) => {
  const values = [[id], [epoch], [token], [recipientKey], node.node, node.counter]
  return session.query<{ answer: string }>('select answer from arm_5($1, $2, $3, $4, $5, $6)', values)
}

describe('arm', () => {
  test('arms a claim of ours once', async () => {
    const claim = await one()
    expect(await recorder.arm(claim)).toBe('armed')
    expect(await queueRow(claim)).toMatchObject({ status: 'sending', armed_epoch: 1 })
    expect(await recorder.arm(claim)).toBe('lost')
  })

  test.each([
    ['another epoch', (claim: Armable) => ({ ...claim, epoch: claim.epoch + 1 })],
    ['an earlier epoch', (claim: Armable) => ({ ...claim, epoch: claim.epoch - 1 })],
    ['another token', (claim: Armable) => ({ ...claim, token: '7' })],
    ['another message', (claim: Armable) => ({ ...claim, id: world.nextId() })],
  ])('does not arm %s', async (_, other) => {
    const claim = await one({ epoch: 3 })
    expect(await recorder.arm(other(claim))).toBe('lost')
    expect(await queueRow(claim)).toMatchObject({ armed_epoch: null })
  })

  test('does not arm when the lease has run out', async () => {
    const claim = await one({ leaseSeconds: -1 })
    expect(await recorder.arm(claim)).toBe('lost')
    expect(await queueRow(claim)).toMatchObject({ armed_epoch: null })
  })

  test('does not arm when the recipient is suppressed, at the simulator like anywhere, in this workspace alone', async () => {
    const other = await world.sender()
    await suppressed('Ann@Example.org')
    await suppressed('delivered@simulator.posthorn.test')
    const [theirs] = await world.claimed(other, [{ recipient: 'ann@example.org' }])
    const [ann, bob, simulated] = await world.claimed(sender, [
      { recipient: 'ANN@example.org' },
      { recipient: 'bob@example.org' },
      { recipient: 'delivered@simulator.posthorn.test', destination: 'simulator.posthorn.test' },
    ])
    const claims = [ann, bob, simulated, theirs] as Armable[]
    expect(await Promise.all(claims.map((claim) => recorder.arm(claim)))).toEqual([
      'suppressed',
      'armed',
      'suppressed',
      'armed',
    ])
    expect(await queueRow(ann as Armable)).toMatchObject({ status: 'sending', armed_epoch: null })
  })

  test.each([
    ['expired', () => world.db.run('update outbound set expires_at = app_now() where workspace_id = $1', own())],
    ['workspace_blocked', () => world.db.run(`update workspaces set status = 'blocked' where id = $1`, own())],
    ['mailbox_not_active', () => disable()],
    ['mailbox_not_active', () => world.db.run('delete from mailboxes where workspace_id = $1', own())],
    ['mailbox_not_active', () => world.db.run(`update domains set status = 'failed' where workspace_id = $1`, own())],
  ])('does not arm what has come to be %s since its claim, in this workspace alone', async (answer, happen) => {
    const [theirs] = await world.claimed(await world.sender(), [{}])
    const claim = await one()
    await happen()
    expect(await Promise.all([claim, theirs as Armable].map((each) => recorder.arm(each)))).toEqual([answer, 'armed'])
    expect(await queueRow(claim)).toMatchObject({ status: 'sending', armed_epoch: null })
  })

  test('a domain that is degraded is armed for, as it is claimed for', async () => {
    const claim = await one()
    await world.db.run(`update domains set status = 'degraded' where workspace_id = $1`, own())
    expect(await recorder.arm(claim)).toBe('armed')
  })

  test('what is armed stays armed, whatever happens to its workspace', async () => {
    const claim = await one()
    await recorder.arm(claim)
    await world.db.run(`update workspaces set status = 'blocked' where id = $1`, own())
    expect(await recorder.arm(claim)).toBe('lost')
    expect(await queueRow(claim)).toMatchObject({ status: 'sending', armed_epoch: 1 })
  })

  test('one batch answers each claim for itself, two epochs of one message included', async () => {
    const claim = await one({ epoch: 2 })
    const answers = await Promise.all(
      [{ ...claim, epoch: 1 }, claim, await one({ leaseSeconds: -1 })].map((each) => recorder.arm(each)),
    )
    expect(answers).toEqual(['lost', 'armed', 'lost'])
  })

  test('a workspace that is blocked while the arm waits for its row sends nothing', async () => {
    const claim = await one()
    const [holder, armer] = [await world.session(), await world.session()]
    await holder.query('begin')
    await holder.query('select from outbound where message_id = $1 for update', [claim.id])
    const arming = armOver(armer, claim)
    await world.untilBlocked(armer)
    await world.db.run(`update workspaces set status = 'blocked' where id = $1`, own())
    await holder.query('commit')
    expect((await arming).rows).toEqual([{ answer: 'workspace_blocked' }])
    expect(await queueRow(claim)).toMatchObject({ status: 'sending', armed_epoch: null })
  })

  // proofs/model/pg-results.txt, cases 4 and 5: one statement that looks at suppressions looks with the snapshot from before it waited.
  test('a suppression that is committed while the arm waits for its row stops the mail', async () => {
    const claim = await one()
    const [holder, armer] = [await world.session(), await world.session()]
    await holder.query('begin')
    await holder.query(`update outbound set lease_until = lease_until + interval '1 hour' where message_id = $1`, [
      claim.id,
    ])
    const arming = armOver(armer, claim)
    await world.untilBlocked(armer)
    await suppressed('ann@example.org')
    await holder.query('commit')
    expect((await arming).rows).toEqual([{ answer: 'suppressed' }])
    expect(await queueRow(claim)).toMatchObject({ status: 'sending', armed_epoch: null })
  })
})

describe('finish', () => {
  test('sent: the row leaves the queue, and the record says so', async () => {
    const claim = await one({ armed: true })
    expect(await recorder.finish(ending(claim, 'sent', { providerMessageId: 'R1', report: delivered }))).toBe(true)
    expect(await queueRow(claim)).toBeUndefined()
    expect(await record(claim)).toMatchObject({
      status: 'sent',
      sequence: 4,
      delivery_rank: 2,
      provider_message_id: 'R1',
      armed_epoch: null,
      armed_token: null,
      error_message: null,
    })
    expect((await record(claim))?.['finished_at']).not.toBeNull()
    expect(await suppressions()).toEqual([])
    // The state's event says what was known before the report.
    expect((await world.history(claim.id)).slice(2)).toEqual(['3 message.sent sent 0', '4 message.delivered sent 2'])
    expect(await attemptsOf(claim)).toEqual([{ epoch: 1, outcome: 'sent', facts: reply(250) }])
  })

  test('behind a heartbeat that is on its way: written, and not taken for decided elsewhere', async () => {
    const claim = await one()
    const heartbeat = await world.holding(
      `update outbound set lease_until = lease_until + interval '1 hour' where message_id = $1`,
      [claim.id],
    )
    const finishing = recorder.finish(ending(claim, 'retrying', { delayMs: 60_000 }))
    await world.untilSomebodyWaits()
    await heartbeat.query('commit')
    expect(await finishing).toBe(true)
    expect(await queueRow(claim)).toMatchObject({ status: 'retrying', due_in: 60 })
  })

  test('sent without a report: one event', async () => {
    const claim = await one({ armed: true })
    await recorder.finish(ending(claim, 'sent'))
    expect((await world.history(claim.id)).slice(2)).toEqual(['3 message.sent sent 0'])
    expect(await record(claim)).toMatchObject({ sequence: 3, delivery_rank: 0 })
  })

  test.each([
    ['a failure that names no reply', { attempt: { attempt: 1, reason: 'not_composable' } }],
    ['a refusal before the dot', { attempt: { ...reply(550), phase: 'rcpt' } }],
    ['a reply with trouble', { attempt: { ...reply(550), trouble: 'malformed' } }],
    ['a 2yz taken for a failure', { attempt: reply(250) }],
    ['a 4yz without evidence', { attempt: reply(450) }],
  ])('%s does not end what is armed: it becomes unknown', async (_, more) => {
    const claim = await one({ armed: true })
    expect(await recorder.finish(ending(claim, 'failed', more))).toBe(false)
    expect(await queueRow(claim)).toMatchObject({ status: 'sending', armed_epoch: 1 })
    await world.db.run(`update outbound set lease_until = app_now() - interval '1 second' where message_id = $1`, [
      claim.id,
    ])
    expect(await reap(world.db, triesMax)).toContainEqual({ id: claim.id, becomes: 'delivery_unknown' })
    expect((await world.history(claim.id)).slice(2)).toEqual(['3 message.delivery_unknown delivery_unknown 0'])
  })

  test.each([
    ['a 5yz to the dot', {}],
    ['a 4yz to the dot of the last try', { evidence: 'eod_4xx' as const, attempt: reply(450) }],
    ['the certainty that no dot was written', { evidence: 'not_written' as const, attempt: { attempt: 1 } }],
  ])('%s ends what is armed as failed', async (_, more) => {
    const claim = await one({ armed: true })
    expect(await recorder.finish(ending(claim, 'failed', more))).toBe(true)
    expect(await record(claim)).toMatchObject({ status: 'failed' })
  })

  test('a hard bounce of somebody who is suppressed by now ends its message all the same, and leaves the reason', async () => {
    const claims = await world.claimed(sender, [{ recipient: 'gone@example.org' }, { recipient: 'gone@example.org' }])
    for (const claim of claims)
      expect(await recorder.finish(ending(claim, 'failed', { report: hardBounce }))).toBe(true)
    expect(await suppressions()).toEqual([
      { recipient_key: 'gone@example.org', reason: 'hard_bounce', source_message_id: claims[0]?.id },
    ])
  })

  test('failed with a hard bounce: suppressed in the same transaction, once', async () => {
    const claims = await world.claimed(sender, [{ recipient: 'gone@example.org' }, { recipient: 'Gone@example.org' }])
    await Promise.all(
      claims.map((claim) => recorder.finish(ending(claim, 'failed', { error: 'no such user', report: hardBounce }))),
    )
    const first = claims[0] as Armable
    expect(await record(first)).toMatchObject({ status: 'failed', delivery_rank: 4, error_message: 'no such user' })
    expect((await world.history(first.id)).slice(2)).toEqual([
      '3 message.failed failed 0',
      '4 message.hard_bounced failed 4',
    ])
    expect(
      await world.db.run(
        'select recipient_key, reason, rule, source_message_id from suppressions where workspace_id = $1',
        [sender.workspaceId],
      ),
    ).toEqual([
      { recipient_key: 'gone@example.org', reason: 'hard_bounce', rule: 'rcpt-5.1.1', source_message_id: first.id },
    ])
    expect(
      await world.db.run('select type, detail, bounce, sequence from reports where message_id = $1', [first.id]),
    ).toEqual([{ type: 'hard_bounce', detail: '550 5.1.1 no such user', bounce, sequence: 4 }])
  })

  test('what other hosts said in the same attempt is told before the report of the one that counts, each as a report of its own', async () => {
    const claim = await one({ armed: true })
    const of = (host: string, detail: string) => ({ detail, bounce, report: { smtp: { host } } })
    const deferredBy = [of('mx1.example.org', '451 not now'), of('mx2.example.org', '450 nor here')]
    const report = {
      type: 'delivered',
      rank: 2,
      detail: '250 ok',
      suppress: false,
      facts: { smtp: { host: 'mx3' } },
    } as const
    expect(await recorder.finish(ending(claim, 'sent', { deferredBy, report }))).toBe(true)
    expect((await world.history(claim.id)).slice(2)).toEqual([
      '3 message.sent sent 0',
      '4 message.soft_bounced sent 1',
      '5 message.soft_bounced sent 1',
      '6 message.delivered sent 2',
    ])
    expect(await record(claim)).toMatchObject({ sequence: 6, delivery_rank: 2 })
    const told = await world.db.run(
      `select r.sequence, r.type, r.detail, r.bounce, e.facts #>> '{smtp,host}' host from reports r
         join events e on e.message_id = r.message_id and e.sequence = r.sequence where r.message_id = $1 order by 1`,
      [claim.id],
    )
    expect(told).toEqual([
      { sequence: 4, type: 'soft_bounce', detail: '451 not now', bounce, host: 'mx1.example.org' },
      { sequence: 5, type: 'soft_bounce', detail: '450 nor here', bounce, host: 'mx2.example.org' },
      { sequence: 6, type: 'delivered', detail: '250 ok', bounce: null, host: 'mx3' },
    ])
  })

  test('and without one of the host that counts: its connection may have broken behind the dot', async () => {
    const claim = await one({ armed: true })
    const deferredBy = [{ detail: '451 not now', bounce, report: {} }]
    expect(await recorder.finish(ending(claim, 'delivery_unknown', { deferredBy }))).toBe(true)
    expect((await world.history(claim.id)).slice(2)).toEqual([
      '3 message.delivery_unknown delivery_unknown 0',
      '4 message.soft_bounced delivery_unknown 1',
    ])
    expect(await record(claim)).toMatchObject({ sequence: 4, delivery_rank: 1 })
  })

  test('retrying: due later, not armed, its proof beside it', async () => {
    const claim = await one({ armed: true, attempts: 3 })
    expect(
      await recorder.finish(
        ending(claim, 'retrying', { delayMs: 60_000, evidence: 'eod_4xx', error: 'not now', report: softBounce }),
      ),
    ).toBe(true)
    expect(await queueRow(claim)).toEqual({
      status: 'retrying',
      armed_epoch: null,
      attempts: 3,
      evidence: 'eod_4xx',
      due_in: 60,
    })
    expect(await record(claim)).toMatchObject({
      status: 'retrying',
      delivery_rank: 1,
      finished_at: null,
      error_message: 'not now',
    })
    expect((await world.history(claim.id)).slice(2)).toEqual([
      '3 message.retrying retrying 0',
      '4 message.soft_bounced retrying 1',
    ])
  })

  test('a claim that is handed back uses no try', async () => {
    const claim = await one({ attempts: 3 })
    await recorder.finish(ending(claim, 'retrying', { delayMs: 0, usesTry: false }))
    expect(await queueRow(claim)).toMatchObject({ status: 'retrying', attempts: 2, evidence: null })
  })

  test('what waits as its claim has left it can be made due, and gets its try back, once; nothing else can', async () => {
    const [waits, other, strange, untried, held, armed] = await world.claimed(sender, [
      { attempts: 3 },
      { attempts: 3 },
      { attempts: 3 },
      { attempts: 1 },
      {},
      { armed: true },
    ])
    const claims = [waits, other, strange, untried, held, armed] as Armable[]
    for (const claim of claims.slice(0, 4))
      await recorder.finish(ending(claim, 'retrying', { delayMs: 60_000, usesTry: claim !== untried }))
    const lately = { ...(other as Armable), epoch: 2 }
    const restored = { ...(strange as Armable), token: '7' }
    const asked = claims.map((claim) => (claim === other ? lately : claim === strange ? restored : claim))
    expect([...(await hastenPutOff(world.db, asked))]).toEqual([waits?.id])
    expect([...(await hastenPutOff(world.db, asked))]).toEqual([])
    expect(await queueRow(waits as Armable)).toMatchObject({ status: 'retrying', attempts: 2, due_in: 0 })
    for (const claim of [other, strange] as Armable[])
      expect(await queueRow(claim)).toMatchObject({ status: 'retrying', attempts: 3, due_in: 60 })
    expect(await queueRow(untried as Armable)).toMatchObject({ status: 'retrying', attempts: 0, due_in: 60 })
    expect(await queueRow(held as Armable)).toMatchObject({ status: 'sending', armed_epoch: null })
    expect(await queueRow(armed as Armable)).toMatchObject({ status: 'sending', armed_epoch: 1 })
    // they would come between others later
    await world.db.run('delete from outbound where message_id = any ($1)', [claims.slice(0, 4).map(({ id }) => id)])
  })

  test('what is made due waits for nobody who has a message of it locked: that one keeps to the schedule', async () => {
    const claims = await world.claimed(sender, [{ attempts: 3 }, { attempts: 3 }])
    const [locked, free] = claims as [Armable, Armable]
    for (const claim of claims) await recorder.finish(ending(claim, 'retrying', { delayMs: 60_000 }))
    await world.db.transaction(async (tx) => {
      await tx.run('select from outbound where message_id = $1 for update', [locked.id])
      expect([...(await hastenPutOff(world.db, claims))]).toEqual([free.id])
    })
    await world.db.run('delete from outbound where message_id = any ($1)', [claims.map(({ id }) => id)])
  })

  test('what was never armed fails without any reply: there was nobody to ask', async () => {
    const claim = await one()
    const nobody = { attempt: { attempt: 1, phase: 'route', reason: 'nxdomain' } }
    expect(await recorder.finish(ending(claim, 'failed', nobody))).toBe(true)
    expect([await record(claim), await queueRow(claim)]).toMatchObject([{ status: 'failed' }, undefined])
  })

  test('an armed claim without proof cannot be tried again, and its neighbours are not hurt', async () => {
    const [armed, other] = await world.claimed(sender, [{ armed: true }, {}])
    const ends = await Promise.allSettled(
      [armed, other].map((claim) => recorder.finish(ending(claim as Armable, 'retrying', { delayMs: 0 }))),
    )
    expect(ends.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
    expect(await queueRow(armed as Armable)).toMatchObject({ status: 'sending', armed_epoch: 1 })
    expect(await record(armed as Armable)).toMatchObject({ status: 'sending', sequence: 2 })
  })

  test('delivery_unknown keeps the armed epoch and token for late proof', async () => {
    const claim = await one({ armed: true, epoch: 4 })
    await recorder.finish(ending(claim, 'delivery_unknown', { error: 'unproven' }))
    expect(await queueRow(claim)).toBeUndefined()
    expect(await record(claim)).toMatchObject({
      status: 'delivery_unknown',
      armed_epoch: 4,
      armed_token: claim.token,
      error_message: 'unproven',
    })
  })

  test.each([
    ['epoch', (claim: Armable) => ({ ...claim, epoch: claim.epoch + 1 })],
    ['token', (claim: Armable) => ({ ...claim, token: '7' })],
  ])('another %s ends nothing', async (_, other) => {
    const claim = await one({ armed: true })
    expect(await recorder.finish(ending(other(claim), 'sent', { report: delivered }))).toBe(false)
    expect(await queueRow(claim)).toMatchObject({ status: 'sending' })
    expect(await world.history(claim.id)).toHaveLength(2)
  })

  test('the same ending again does nothing', async () => {
    const claim = await one({ armed: true })
    expect(await recorder.finish(ending(claim, 'sent', { report: delivered }))).toBe(true)
    expect(await recorder.finish(ending(claim, 'sent', { report: delivered }))).toBe(false)
    expect(await recorder.finish(ending(claim, 'failed'))).toBe(false)
    expect(await world.history(claim.id)).toHaveLength(4)
  })

  test('another workspace cannot end it', async () => {
    const claim = await one({ armed: true })
    const stranger = (await world.sender()).workspaceId
    await recorder.finish(ending(claim, 'sent', { workspaceId: stranger }))
    expect(await record(claim)).toMatchObject({ status: 'sending' })
    expect(await queueRow(claim)).toMatchObject({ status: 'sending' })
  })

  test('two epochs of one message in one batch: the one that holds the row ends it', async () => {
    const claim = await one({ armed: true, epoch: 2 })
    const earlier = { ...claim, epoch: 1, token: '7' }
    const done = await Promise.all([
      recorder.finish(ending(earlier, 'failed', { report: hardBounce })),
      recorder.finish(ending(claim, 'sent', { report: delivered })),
    ])
    expect(done).toEqual([false, true])
    expect((await world.history(claim.id)).slice(2)).toEqual(['3 message.sent sent 0', '4 message.delivered sent 2'])
  })

  test('a report never lowers the delivery status', async () => {
    const claim = await one({ armed: true })
    await world.db.run('update messages set delivery_rank = 5 where id = $1', [claim.id])
    await recorder.finish(ending(claim, 'sent', { report: delivered }))
    expect(await record(claim)).toMatchObject({ status: 'sent', delivery_rank: 5 })
  })
})

describe('late proof', () => {
  /** Armed, then reaped: nobody can know, but for the worker that still holds the reply. */
  const reaped = async (): Promise<Armable> => {
    const claim = await one({ armed: true, leaseSeconds: -1 })
    await reap(world.db, triesMax)
    expect(await record(claim)).toMatchObject({
      status: 'delivery_unknown',
      armed_epoch: claim.epoch,
      armed_token: claim.token,
    })
    return claim
  }

  test('a late 2yz makes it sent', async () => {
    const claim = await reaped()
    expect(await recorder.finish(ending(claim, 'sent', { providerMessageId: 'R9', report: delivered }))).toBe(true)
    expect(await record(claim)).toMatchObject({
      status: 'sent',
      sequence: 5,
      delivery_rank: 2,
      provider_message_id: 'R9',
      error_message: null,
      armed_token: null,
    })
    expect((await world.history(claim.id)).slice(2)).toEqual([
      '3 message.delivery_unknown delivery_unknown 0',
      '4 message.sent sent 0',
      '5 message.delivered sent 2',
    ])
    // The timeline says what the attempt came to after all, and nobody is suppressed for having got it.
    expect(await attemptsOf(claim)).toEqual([{ epoch: claim.epoch, outcome: 'sent', facts: reply(250) }])
    expect(await suppressions()).toEqual([])
  })

  test('a late 2yz makes it sent also among endings that come in time', async () => {
    const [late, inTime] = [await reaped(), await one({ armed: true })]
    const answers = await Promise.all([
      recorder.finish(ending(late, 'sent', { report: delivered })),
      recorder.finish(ending(inTime, 'sent', { report: delivered })),
    ])
    expect(answers).toEqual([true, true])
    expect([await record(late), await record(inTime)]).toMatchObject([{ status: 'sent' }, { status: 'sent' }])
  })

  test('a late 5yz makes it failed, also where somebody has the same recipient on the list by now', async () => {
    const claims = [await reaped(), await reaped()]
    for (const claim of claims) {
      expect(await recorder.finish(ending(claim, 'failed', { error: 'no', report: hardBounce }))).toBe(true)
      expect(await record(claim)).toMatchObject({ status: 'failed', delivery_rank: 4, error_message: 'no' })
    }
    expect(await suppressions()).toMatchObject([{ source_message_id: claims[0]?.id }])
  })

  test('a late 4yz makes it failed, not tried again, and its report is the end', async () => {
    const claim = await reaped()
    const event = { attempt: 1, reason: 'eod_4xx', nextAttemptAt: '2026-01-01T00:00:00.000Z' }
    const late = ending(claim, 'retrying', {
      delayMs: 1,
      evidence: 'eod_4xx',
      error: 'not now',
      event,
      report: softBounce,
    })
    expect(await recorder.finish(late)).toBe(true)
    expect(await queueRow(claim)).toBeUndefined()
    expect(await record(claim)).toMatchObject({ status: 'failed', delivery_rank: 3 })
    expect((await world.history(claim.id)).slice(3)).toEqual([
      '4 message.failed failed 0',
      '5 message.soft_bounced failed 3',
    ])
    const facts = await world.db.run<{ facts: unknown }>(
      'select facts from events where message_id = $1 and sequence > 3 order by sequence',
      [claim.id],
    )
    expect(facts.map((row) => row.facts)).toEqual([
      { attempt: 1, reason: 'eod_4xx_late' },
      { bounce: { ...bounce, permanent: false, final: true } },
    ])
    expect(await world.value('select bounce -> $$final$$ from reports where message_id = $1', [claim.id])).toBe(true)
  })

  test('late proof tells what other hosts said, too', async () => {
    const claim = await reaped()
    const deferredBy = [{ detail: '451 not now', bounce, report: {} }]
    const report = { type: 'delivered', rank: 2, detail: '250 ok', suppress: false, facts: {} } as const
    expect(await recorder.finish(ending(claim, 'sent', { attempt: reply(250), deferredBy, report }))).toBe(true)
    expect((await world.history(claim.id)).slice(3)).toEqual([
      '4 message.sent sent 0',
      '5 message.soft_bounced sent 1',
      '6 message.delivered sent 2',
    ])
  })

  test('a late 4yz to the last try makes it failed as it says', async () => {
    const claim = await reaped()
    const late = ending(claim, 'failed', {
      evidence: 'eod_4xx',
      attempt: reply(450),
      event: { attempt: 10, reason: 'tries_used_up' },
    })
    expect(await recorder.finish(late)).toBe(true)
    expect(await record(claim)).toMatchObject({ status: 'failed' })
  })

  test('a late 4yz on a route whose replies are nobody’s report makes it failed too', async () => {
    const claim = await reaped()
    expect(await recorder.finish(ending(claim, 'retrying', { delayMs: 1, evidence: 'eod_4xx' }))).toBe(true)
    expect(await record(claim)).toMatchObject({ status: 'failed', sequence: 4, delivery_rank: 0 })
  })

  test.each([
    ['a foreign token', (claim: Armable) => ending({ ...claim, token: '7' }, 'sent')],
    ['another epoch', (claim: Armable) => ending({ ...claim, epoch: 2 }, 'sent')],
    ['an earlier epoch', (claim: Armable) => ending({ ...claim, epoch: 0 }, 'sent')],
    ['another workspace', (claim: Armable) => ending(claim, 'sent', { workspaceId: randomUUID() as WorkspaceId })],
    ['no proof at all', (claim: Armable) => ending(claim, 'delivery_unknown')],
    [
      'a dot that was never written',
      (claim: Armable) => ending(claim, 'retrying', { delayMs: 1, evidence: 'not_written' }),
    ],
    ['a failure without a dot', (claim: Armable) => ending(claim, 'failed', { evidence: 'not_written' })],
    // What a fault of ours ends, or what was decided before the dot: nobody has replied to anything.
    [
      'a failure that names no reply',
      (claim: Armable) => ending(claim, 'failed', { attempt: { attempt: 1, reason: 'content_lost' } }),
    ],
    [
      'a success that names no reply',
      (claim: Armable) => ending(claim, 'sent', { attempt: { attempt: 1, phase: 'eod' } }),
    ],
    [
      'a refusal before the dot',
      (claim: Armable) => ending(claim, 'failed', { attempt: { ...reply(550), phase: 'rcpt' } }),
    ],
    [
      'a 2yz before the dot',
      (claim: Armable) => ending(claim, 'sent', { attempt: { ...reply(250), phase: 'content' } }),
    ],
    [
      'a reply with trouble',
      (claim: Armable) => ending(claim, 'sent', { attempt: { ...reply(250), trouble: 'malformed' } }),
    ],
    ['a 354 taken for a success', (claim: Armable) => ending(claim, 'sent', { attempt: reply(354) })],
    ['a 5yz taken for a success', (claim: Armable) => ending(claim, 'sent', { attempt: reply(550) })],
    ['a 2yz taken for a failure', (claim: Armable) => ending(claim, 'failed', { attempt: reply(250) })],
    ['a code of four digits', (claim: Armable) => ending(claim, 'sent', { attempt: reply(2500) })],
    [
      'a success with the evidence of a refusal',
      (claim: Armable) => ending(claim, 'sent', { evidence: 'eod_4xx', attempt: reply(450) }),
    ],
    [
      'a 5yz as evidence to try again',
      (claim: Armable) => ending(claim, 'retrying', { delayMs: 1, evidence: 'eod_4xx', attempt: reply(550) }),
    ],
    ['a 4yz without evidence', (claim: Armable) => ending(claim, 'failed', { attempt: reply(450) })],
    ['a try again without evidence', (claim: Armable) => ending(claim, 'retrying', { delayMs: 1 })],
  ])('%s proves nothing', async (_, proof) => {
    const claim = await reaped()
    expect(await recorder.finish(proof(claim))).toBe(false)
    expect(await record(claim)).toMatchObject({ status: 'delivery_unknown', sequence: 3 })
    expect(await world.history(claim.id)).toHaveLength(3)
  })

  test('the same proof from two nodes at once counts once', async () => {
    const claim = await reaped()
    const another = world.anotherNode()
    const nodes = [recorder, makeRecorder(another, another, await world.node())]
    const done = await Promise.all(nodes.map((node) => node.finish(ending(claim, 'sent', { report: delivered }))))
    expect(done.filter(Boolean)).toHaveLength(1)
    expect(await world.history(claim.id)).toHaveLength(5)
  })
})

describe('reap', () => {
  test('leaves leases alone that still run', async () => {
    const claims = await world.claimed(sender, [{}, { armed: true }])
    await reap(world.db, triesMax)
    expect(await Promise.all(claims.map(async (claim) => (await queueRow(claim))?.status))).toEqual([
      'sending',
      'sending',
    ])
  })

  test.each([
    ['not armed', {}, 'retrying', 'worker_lost'],
    ['not armed, and the last try', { attempts: triesMax }, 'failed', 'tries_used_up'],
    ['not armed, and too old', { expired: true }, 'failed', 'expired'],
    ['armed', { armed: true }, 'delivery_unknown', 'worker_lost'],
    ['armed, and the last try', { armed: true, attempts: triesMax, expired: true }, 'delivery_unknown', 'worker_lost'],
  ] as const)('%s', async (_, as, becomes, reason) => {
    const claim = await one({ ...as, leaseSeconds: -1 })
    expect(await reap(world.db, triesMax)).toContainEqual({ id: claim.id, becomes })
    expect(await record(claim)).toMatchObject({ status: becomes, sequence: 3 })
    expect((await world.history(claim.id)).slice(2)).toEqual([`3 message.${becomes} ${becomes} 0`])
    const facts = await world.value<object>('select facts from events where message_id = $1 and sequence = 3', [
      claim.id,
    ])
    expect(facts).toMatchObject({ reason })
    // What has ended is not tried again, and nobody is told when.
    expect('nextAttemptAt' in facts).toBe(becomes === 'retrying')
    if (becomes === 'retrying')
      expect(await queueRow(claim)).toMatchObject({ status: 'retrying', due_in: 0, attempts: 1 })
    else expect(await queueRow(claim)).toBeUndefined()
    expect(await reap(world.db, triesMax)).toEqual([])
  })

  test('leaves what is armed alone where those who hold replies shall come first', async () => {
    const [unarmed, armed] = await world.claimed(sender, [{ leaseSeconds: -1 }, { leaseSeconds: -1, armed: true }])
    expect(await reap(world.db, triesMax, { armedToo: false })).toEqual([{ id: unarmed?.id, becomes: 'retrying' }])
    expect(await reap(world.db, triesMax)).toEqual([{ id: armed?.id, becomes: 'delivery_unknown' }])
  })

  test('does nothing where the statement was long on its way', async () => {
    const [late] = await world.claimed(sender, [{ leaseSeconds: -1 }])
    expect(await reap(world.db, triesMax, { before: new Date(Date.now() - 60_000) })).toEqual([])
    expect(await reap(world.db, triesMax, { before: new Date(Date.now() + 60_000) })).toEqual([
      { id: late?.id, becomes: 'retrying' },
    ])
  })

  // proofs/model/pg-results.txt, case 1: a reaper that chose before the arm and updated after it turned an armed row into retrying.
  test('a reaper that meets an arm on its way does not touch the row', async () => {
    const claim = await one({ leaseSeconds: -1 })
    const armer = await world.holding('update outbound set armed_epoch = epoch where message_id = $1', [claim.id])
    expect(await reap(world.db, triesMax)).toEqual([])
    await armer.query('commit')
    expect(await queueRow(claim)).toMatchObject({ status: 'sending', armed_epoch: 1 })
    expect(await reap(world.db, triesMax)).toEqual([{ id: claim.id, becomes: 'delivery_unknown' }])
  })

  test('an arm that waits for a reaper finds its claim gone', async () => {
    const claim = await one()
    const [reaper, armer] = [await world.session(), await world.session()]
    // The arm looks at the clock before the lease runs out, and at the row after it was reaped.
    await armer.query('begin')
    const { rows } = await armer.query<{ now: string }>('select now()::text')
    await world.db.run(
      `update outbound set lease_until = $2::timestamptz + interval '1 microsecond' where message_id = $1`,
      [claim.id, rows[0]?.now],
    )
    await reaper.query('begin')
    await reaper.query('select * from reap_3($1, 500, true)', [triesMax])
    const arming = armOver(armer, claim)
    await world.untilBlocked(armer)
    await reaper.query('commit')
    expect((await arming).rows).toEqual([])
    await armer.query('commit')
    expect(await queueRow(claim)).toMatchObject({ status: 'retrying', armed_epoch: null })
  })

  test('a finish that waits for a reaper becomes late proof', async () => {
    const claim = await one({ armed: true, leaseSeconds: -1 })
    const reaper = await world.holding('select * from reap_3($1, 500, true)', [triesMax])
    const finishing = recorder.finish(ending(claim, 'sent', { report: delivered }))
    await world.untilSomebodyWaits()
    await reaper.query('commit')
    expect(await finishing).toBe(true)
    expect((await world.history(claim.id)).slice(2)).toEqual([
      '3 message.delivery_unknown delivery_unknown 0',
      '4 message.sent sent 0',
      '5 message.delivered sent 2',
    ])
  })
  test('two reapers: each row has one end and one event', async () => {
    const claims = await world.claimed(
      sender,
      Array.from({ length: 40 }, (_, i) => ({ leaseSeconds: -1, armed: i % 2 === 0 })),
    )
    const [one, two] = [world.anotherNode(), world.anotherNode()]
    const ended = (await Promise.all([reap(one, triesMax), reap(two, triesMax)])).flat()
    expect(ended.map(({ id }) => id).sort()).toEqual(claims.map(({ id }) => id).sort())
    expect(await Promise.all(claims.map(async ({ id }) => (await world.history(id)).length))).toEqual(
      claims.map(() => 3),
    )
  })
})

describe('claim', () => {
  const simulated = {
    recipient: 'delivered@simulator.posthorn.test',
    recipient_key: 'delivered@simulator.posthorn.test',
    destination: 'simulator.posthorn.test',
  }
  const mine = <Row extends { workspaceId: WorkspaceId }>(rows: readonly Row[]) =>
    rows.filter(({ workspaceId }) => workspaceId === sender.workspaceId)
  const submit = async (n: number, fields: Record<string, unknown> = {}, from = sender): Promise<MessageId[]> => {
    const admitter = makeAdmitter(world.db)
    const rows = Array.from({ length: n }, () => world.submission(from, fields))
    await Promise.all(rows.map((row) => admitter.admit(row)))
    return rows.map((row) => row.fields['id'] as MessageId)
  }

  test('takes what is due, with a new epoch, a lease and one try more', async () => {
    const [id] = await submit(1)
    const [claimed] = mine((await claimDue(world.db, wholeClaim)).claimed)
    expect(claimed).toMatchObject({
      id,
      epoch: 1,
      attempt: 1,
      recipient: 'Ann@Example.org',
      bodyText: 'Good morning',
      destination: 'example.org',
    })
    expect(await queueRow(claimed as Armable)).toMatchObject({ status: 'sending', armed_epoch: null, attempts: 1 })
    expect((await world.history(id as MessageId)).slice(1)).toEqual(['2 message.sending sending 0'])
    expect(mine((await claimDue(world.db, wholeClaim)).claimed)).toEqual([])
    expect(await recorder.arm(claimed as Armable)).toBe('armed')
  })

  test('a message that waits for its time is left alone, and its old proof does not outlive the next claim', async () => {
    const claim = await one({ armed: true })
    await recorder.finish(ending(claim, 'retrying', { delayMs: 60_000, evidence: 'eod_4xx' }))
    expect(mine((await claimDue(world.db, wholeClaim)).claimed)).toEqual([])
    await world.db.run('update outbound set due_at = app_now() where message_id = $1', [claim.id])
    const [again] = mine((await claimDue(world.db, wholeClaim)).claimed)
    expect(again).toMatchObject({ id: claim.id, epoch: 2, attempt: 2 })
    expect(again?.token).not.toBe(claim.token)
    expect(await queueRow(claim)).toMatchObject({ evidence: null })
  })

  test('two workers take each message once', async () => {
    const ids = await submit(60)
    const another = world.anotherNode()
    const taken = (
      await Promise.all([claimDue(world.db, wholeClaim), claimDue(another, wholeClaim), claimDue(world.db, wholeClaim)])
    ).flatMap(({ claimed }) => mine(claimed))
    const rest = mine((await claimDue(world.db, wholeClaim)).claimed)
    expect([...taken, ...rest].map(({ id }) => id).sort()).toEqual([...ids].sort())
  })

  test('a lane with a backlog does not keep others waiting', async () => {
    await submit(30)
    const other = await world.sender()
    const [single] = await submit(1, {}, other)
    const [elsewhere] = await submit(1, {
      recipient: 'b@b.example',
      recipient_key: 'b@b.example',
      destination: 'b.example',
    })
    const ids = (await claimDue(world.db, { ...wholeClaim, most: 4 })).claimed.map(({ id }) => id)
    expect(ids).toHaveLength(4)
    expect(ids).toEqual(expect.arrayContaining([single, elsewhere]))
    await claimDue(world.db, wholeClaim)
  })

  test('a busy destination is passed over', async () => {
    const [id] = await submit(1)
    expect(mine((await claimDue(world.db, { ...wholeClaim, rooms: { 'example.org': 0 } })).claimed)).toEqual([])
    expect(mine((await claimDue(world.db, wholeClaim)).claimed).map((claimed) => claimed.id)).toEqual([id])
  })

  test.each([
    [
      'expired',
      () => world.db.run(`update outbound set expires_at = app_now() where workspace_id = $1`, [sender.workspaceId]),
    ],
    [
      'workspace_blocked',
      () => world.db.run(`update workspaces set status = 'blocked' where id = $1`, [sender.workspaceId]),
    ],
    [
      'mailbox_not_active',
      () => world.db.run(`update mailboxes set status = 'disabled' where id = $1`, [sender.mailboxId]),
    ],
    ['mailbox_not_active', () => world.db.run(`update domains set status = 'failed' where id = $1`, [sender.domainId])],
    ['recipient_suppressed', () => suppressed('ann@example.org')],
    ['recipient_suppressed', () => suppressed(simulated.recipient), simulated],
    ['content_lost', () => world.db.run(`delete from contents where workspace_id = $1`, [sender.workspaceId])],
  ] as [string, () => Promise<unknown>, object?][])(
    'a message that may not be sent any more becomes failed: %s',
    async (reason, happen, fields = {}) => {
      const [id] = await submit(1, { ...fields })
      await happen()
      const answer = await claimDue(world.db, wholeClaim)
      expect(mine(answer.claimed)).toEqual([])
      expect(mine(answer.refused)).toEqual([{ id, workspaceId: sender.workspaceId, reason }])
      expect((await world.history(id as MessageId)).slice(1)).toEqual(['2 message.failed failed 0'])
      expect(await world.value('select count(*)::integer from outbound where message_id = $1', [id])).toBe(0)
    },
  )

  test.each([
    ['that waits for nobody', extendLeases],
    ['that waits', extendLocked],
  ])('a heartbeat %s extends exactly the claims that are still ours', async (_, extend) => {
    const [held, other] = (await world.claimed(sender, [{ leaseSeconds: 5 }, { leaseSeconds: 5 }])) as [
      Armable,
      Armable,
    ]
    expect(await extend(world.db, [held, { ...other, token: '7' }, { ...held, epoch: 9 }], 90_000)).toEqual(
      new Set([`${held.id} 1`]),
    )
    expect(await secondsLeft(held)).toBeGreaterThan(80)
    expect(await secondsLeft(other)).toBeLessThan(10)
  })

  test('what somebody has locked keeps no other lease from being extended', async () => {
    const [locked, free] = (await world.claimed(sender, [{ leaseSeconds: 5 }, { leaseSeconds: 5 }])) as [
      Armable,
      Armable,
    ]
    const holder = await world.holding('select from outbound where message_id = $1 for update', [locked.id])
    expect(await extendLeases(world.db, [locked, free], 90_000)).toEqual(new Set([`${free.id} 1`]))
    expect(await secondsLeft(free)).toBeGreaterThan(80)
    const extending = extendLocked(world.db, [locked], 90_000)
    await world.untilSomebodyWaits()
    await holder.query('rollback')
    expect(await extending).toEqual(new Set([`${locked.id} 1`]))
    expect(await secondsLeft(locked)).toBeGreaterThan(80)
  })

  test('a claim that is armed while the heartbeat waits for its row is still ours', async () => {
    const claim = await one({ leaseSeconds: 5 })
    const armer = await world.holding('update outbound set armed_epoch = epoch where message_id = $1', [claim.id])
    const extending = extendLocked(world.db, [claim], 90_000)
    await world.untilSomebodyWaits()
    await armer.query('commit')
    expect(await extending).toEqual(new Set([`${claim.id} 1`]))
  })

  const secondsLeft = (claim: Armable) =>
    world.value<number>(
      'select extract(epoch from lease_until - app_now())::integer from outbound where message_id = $1',
      [claim.id],
    )
})

// A plan lives as long as its connection, and the queue is empty one minute and full the next (docs/decisions/0006).
describe('what a batch costs in a plan that was made while the queue was empty', () => {
  const acts = {
    arm: (by: Recorder, claim: Armable) => by.arm(claim),
    ending: (by: Recorder, claim: Armable) => by.finish(ending(claim, 'failed', { evidence: 'not_written' })),
  }

  test.each([
    ['arm', 'nothing is claimed', `update outbound set status = 'queued', lease_until = null, lease_owner = null`],
    ['ending', 'nothing is queued', 'delete from outbound'],
  ] as const)(
    '%s, planned while %s: as many pages beside 3,000 other claims as beside none',
    async (act, _, before) => {
      const world = await storeWorld() // what other tests left in the queue is in the way
      const sender = await world.sender()
      const others = () =>
        world.db.run(
          `insert into outbound (message_id, workspace_id, mailbox_id, destination, status, due_at, expires_at, epoch, token, lease_until, lease_owner)
         select gen_random_uuid(), $1, $2, 'example.org', 'sending', app_now(), app_now() + interval '1 day', 1, n, app_now() + interval '1 hour', $1
           from generate_series(1, 3000) n`,
          [sender.workspaceId, sender.mailboxId],
        )
      // It was full before: its files are not small, and it says that nothing stands in them.
      await others()
      await world.db.run(before)
      await world.settled()
      await world.db.run('vacuum (analyze, truncate false) outbound')
      const connection = openDatabase(world.connection, { name: 'one session', connectionsMax: 1, answerMs: 15_000 })
      let pages = 0
      const counting: Pick<Db, 'rows'> = {
        rows: async ({ text }: Statement, values: readonly unknown[] = []) => {
          const [row] = await connection.run<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
            `explain (analyze, buffers, format json) ${text}`,
            values,
          )
          const plan = row?.['QUERY PLAN'][0].Plan ?? {}
          pages = (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0)
          return []
        },
      }
      const by = makeRecorder(counting as Db, counting as Db, await world.node())
      const cost = async (): Promise<number> => {
        const claims = await world.claimed(
          sender,
          Array.from({ length: 20 }, () => ({})),
        )
        await Promise.all(claims.map((claim) => acts[act](by, claim)))
        return pages
      }
      await cost() // makes the plans
      // A vacuum beside it costs pages once, and a plan that looks at all claims each time.
      const least = async () => Math.min(await cost(), await cost(), await cost())
      const few = await least()
      await others()
      const many = await least()
      await connection.close()
      expect(many / few).toBeLessThan(1.6)
    },
  )
})
