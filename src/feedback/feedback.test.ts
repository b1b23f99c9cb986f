// What a relay provider's feed may say: about messages that went over its own route, found by our token or by the relay's id for them.
import { beforeEach, describe, expect, test } from 'vitest'
import { silentLog, type Facts } from '../base/log.ts'
import { makeVault } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { RouteTaken } from '../domain/attempt.ts'
import type { Claim, MessageId } from '../domain/message.ts'
import type { MessageEvidence, ProviderReport } from '../domain/provider-report.ts'
import { makeToken } from '../mail/return-path.ts'
import { makeRecorder } from '../store/outbound.ts'
import { beginRemoval, carryOnRemoval } from '../store/removal.ts'
import { makeReportRecorder, pruneReports, type RelayRoute } from '../store/reports.ts'
import { makeReturnPathKeys, rotateReturnPathKey } from '../store/return-path-keys.ts'
import { storeWorld, type Sender } from '../store/store.test-kit.ts'
import { pruneUnmatched } from '../store/unmatched.ts'
import {
  findUnmatchedFeedback,
  pageUnmatchedFeedback,
  makeFeedback,
  rotateReturnPath,
  type Feedback,
} from './feedback.ts'

const vault = makeVault('a key for the tests of feeds')
let sender: Sender
const newFeedback = (log = silentLog): Feedback =>
  makeFeedback({
    db: world.db,
    keys: makeReturnPathKeys(world.db, vault),
    record: makeReportRecorder(world.db),
    provenReporter: () => Promise.resolve('unproven'),
    hostname: 'node.test',
    log,
  })
const world = await storeWorld()
const feedback = newFeedback()
beforeEach(async () => {
  sender = await world.sender()
  await world.db.run('delete from unmatched_feedback')
})

/** A message that a relay took under this id. Left out of `taken`: its attempt does not say which route it took, as those of older releases. */
async function relayed(route: RelayRoute, providerMessageId: string, taken?: RouteTaken): Promise<MessageId> {
  const [claim] = (await world.claimed(sender, [{ armed: true }])) as Claim[] as [Claim]
  const done = await makeRecorder(world.db, world.db, await world.node()).finish({
    ...claim,
    workspaceId: sender.workspaceId,
    status: 'sent',
    providerMessageId,
    relay: route,
    usesTry: true,
    outcome: 'accepted',
    attempt: { phase: 'eod', ...(taken !== undefined && { route: taken }) },
    event: {},
  })
  expect(done).toBe(true)
  return claim.id
}

function bounce(...evidence: MessageEvidence[]): ProviderReport {
  return {
    kind: 'bounce',
    evidence,
    reply: { action: 'failed', code: 550, enhancedCode: '5.1.1', text: '5.1.1 no such user' },
    source: 'feed',
    reporter: 'ses',
    fingerprint: Buffer.from('fingerprint'.padEnd(32)).toString('hex'),
  }
}
async function byToken(id: MessageId): Promise<MessageEvidence> {
  const key = await makeReturnPathKeys(world.db, vault).at(new Date())
  return { by: 'token', token: makeToken(key, id, sender.workspaceId) }
}
const setOwnRoute = (sealed: string | null) =>
  world.db.run('update workspaces set route_sealed = $2 where id = $1', [sender.workspaceId, sealed])
const byId = (providerMessageId: string): MessageEvidence => ({ by: 'providerMessageId', providerMessageId })
const types = async (id: MessageId) => (await world.history(id)).map((line) => line.split(' ')[1])
const unmatched = async () =>
  (await pageUnmatchedFeedback(world.db, 10)).items.map(({ reason, source }) => [reason, source])

test('a mail to the complaint address under many names, and to postmaster, is read and kept once', async () => {
  const names = ['complaints+1@node.test', 'COMPLAINTS+2@node.test', 'complaints@node.test', 'postmaster@node.test']
  const addressees = await Promise.all(names.map((name) => feedback.addresseeOf(name)))
  const mail = {
    sender: '',
    addressees: addressees.filter((each) => each !== undefined),
    content: Buffer.from('hello'),
  }
  expect(mail.addressees).toHaveLength(4)
  expect(await feedback.receive(mail)).toBe('kept')
  expect(await unmatched()).toEqual([['no_report', 'mail']])
})

test('what a person has written in UTF-8 is shown to operators as it was written', async () => {
  const addressee = await feedback.addresseeOf('complaints@node.test')
  const content = 'Subject: Grüße\r\n\r\nKönnen Sie das löschen? – Jörg\r\n'
  await feedback.receive({
    sender: 'joerg@example.org',
    addressees: addressee === undefined ? [] : [addressee],
    content: Buffer.from(content),
  })
  const [kept] = (await pageUnmatchedFeedback(world.db, 10)).items
  expect(await findUnmatchedFeedback(world.db, kept?.id ?? '')).toMatchObject({ content })
})

test('what is kept is dated by the database, whatever this machine takes for the time: pages go by its id', async () => {
  const hoursBehind = new Date(Date.now() - 5 * 3600_000)
  await world.setClock(hoursBehind.toISOString())
  const addressee = await feedback.addresseeOf('complaints@node.test')
  await feedback.receive({
    sender: '',
    addressees: addressee === undefined ? [] : [addressee],
    content: Buffer.from('x'),
  })
  await world.setClock()
  const [kept] = (await pageUnmatchedFeedback(world.db, 10)).items
  const datedMs = Number.parseInt((kept?.id ?? '').replace('-', '').slice(0, 12), 16)
  expect(Math.abs(datedMs - hoursBehind.getTime())).toBeLessThan(60_000)
})

describe('a report of a feed', () => {
  test("finds its message by the relay's id, on its own route alone, and once", async () => {
    const id = await relayed('installation', 'R-1')
    expect(await feedback.receiveFed({ name: 'ses', route: sender.workspaceId }, [bounce(byId('R-1'))])).toEqual([
      'unknown_message',
    ])
    expect(await feedback.receiveFed({ name: 'ses', route: 'installation' }, [bounce(byId('R-1'))])).toEqual([
      'recorded',
    ])
    expect(await feedback.receiveFed({ name: 'ses', route: 'installation' }, [bounce(byId('R-1'))])).toEqual([
      'repeated',
    ])
    expect(await types(id)).toEqual(['message.queued', 'message.sending', 'message.sent', 'message.hard_bounced'])
    expect(await unmatched()).toEqual([['unknown_message', 'ses']])
  })

  test("waits where it overtakes our own record of the relay's reply, for an hour, and is no unmatched one any more", async () => {
    const occurredAt = new Date('2026-11-21T05:00:00.000Z')
    const overtakes = { ...bounce(byId('R-late \0"é')), occurredAt }
    const early = { ...bounce(byId('R-late')), occurredAt }
    const receive = (route: RelayRoute, report = early) => feedback.receiveFed({ name: 'ses', route }, [report])
    expect(await receive('installation', overtakes)).toEqual(['unknown_message'])
    expect(await receive('installation')).toEqual(['unknown_message'])
    expect(await receive(sender.workspaceId)).toEqual(['unknown_message'])
    await feedback.matchLate()
    expect(await unmatched()).toHaveLength(3)
    const id = await relayed('installation', 'R-late')
    await feedback.matchLate()
    expect(await types(id)).toEqual(['message.queued', 'message.sending', 'message.sent', 'message.hard_bounced'])
    // What another route's feed said, and what names no message, stays.
    expect(await unmatched()).toHaveLength(2)
    await world.db.run(`update unmatched_feedback set received_at = app_now() - interval '61 minutes'`)
    await relayed(sender.workspaceId, 'R-late')
    await feedback.matchLate()
    expect(await unmatched()).toHaveLength(2)
  })

  test('waits for its second look behind nobody’s whose record somebody holds', async () => {
    for (const name of ['R-held', 'R-free'])
      await feedback.receiveFed({ name: 'ses', route: 'installation' }, [bounce(byId(name))])
    const [held, free] = [await relayed('installation', 'R-held'), await relayed('installation', 'R-free')]
    const holder = await world.holding('select from messages where id = $1 for update', [held])
    await feedback.matchLate()
    expect([await types(held), await types(free)].map((all) => all.includes('message.hard_bounced'))).toEqual([
      false,
      true,
    ])
    await holder.query('rollback')
    await feedback.matchLate()
    expect(await types(held)).toContain('message.hard_bounced')
    expect(await unmatched()).toEqual([])
  })

  test('waits for its second look behind nobody’s that find no message for good', async () => {
    await relayed(sender.workspaceId, 'R-both')
    await relayed(sender.workspaceId, 'R-both')
    const many = Array.from({ length: limits.reportsPerStatementMax }, () => bounce(byId('R-both')))
    await feedback.receiveFed({ name: 'generic', route: sender.workspaceId }, many)
    await feedback.receiveFed({ name: 'ses', route: 'installation' }, [bounce(byId('R-behind'))])
    const id = await relayed('installation', 'R-behind')
    await feedback.matchLate()
    await feedback.matchLate()
    expect(await types(id)).toContain('message.hard_bounced')
    // What stays is looked at again: the next may find one.
    await world.db.run(`delete from unmatched_feedback where source = 'generic'`)
    await feedback.receiveFed({ name: 'ses', route: 'installation' }, [bounce(byId('R-next'))])
    const next = await relayed('installation', 'R-next')
    await feedback.matchLate()
    expect(await types(next)).toContain('message.hard_bounced')
  })

  test.each(['mx', 'sandbox', 'installation', 'workspace'] as const)(
    'finds by our token what went over its own route, whatever route the workspace has now: %s',
    async (taken) => {
      const token = await byToken(await relayed('installation', `R-${taken}`, taken))
      const other = await world.sender()
      const answers = async (...evidence: MessageEvidence[]) => {
        const routes = ['installation', sender.workspaceId, other.workspaceId] as const
        return Promise.all(
          routes.map(async (route) => (await feedback.receiveFed({ name: 'ses', route }, [bounce(...evidence)]))[0]),
        )
      }
      const known = [taken === 'installation', taken === 'workspace', false]
      const expected = (first: string) => known.map((isOurs) => (isOurs ? first : 'other_route'))
      await setOwnRoute(taken === 'installation' ? 'x' : null)
      expect(await answers(token)).toEqual(expected('recorded'))
      await setOwnRoute(taken === 'installation' ? null : 'x')
      expect(await answers(token)).toEqual(expected('repeated'))
      const kept = await world.db.run<{ facts: object }>('select facts from unmatched_feedback')
      expect(new Set(kept.map(({ facts }) => (facts as { workspaceId: string }).workspaceId))).toEqual(
        new Set([sender.workspaceId]),
      )
    },
  )

  test("finds it by the relay's id when the workspace has got a relay of its own since, whatever token stands beside it", async () => {
    await relayed('installation', 'R-2', 'installation')
    const elsewhere = await byToken(await relayed('installation', 'R-2b', 'mx'))
    await relayed('installation', 'R-lost') // its worker was lost behind the dot: the route is known by the id alone
    await setOwnRoute('x')
    const feed = { name: 'ses', route: 'installation' } as const
    const reports = [bounce(elsewhere, byId('R-2')), bounce(byId('R-lost'))]
    expect(await feedback.receiveFed(feed, reports)).toEqual(['recorded', 'recorded'])
  })

  test('goes by the present route of the workspace where no attempt says which it took', async () => {
    const id = await relayed('installation', 'R-7')
    const token = await byToken(id)
    const other = await world.sender()
    expect(await feedback.receiveFed({ name: 'ses', route: other.workspaceId }, [bounce(token)])).toEqual([
      'other_route',
    ])
    await setOwnRoute('x')
    expect(await feedback.receiveFed({ name: 'ses', route: 'installation' }, [bounce(token)])).toEqual(['other_route'])
    const kept = await world.db.run<{ facts: object }>('select facts from unmatched_feedback')
    const whose = { messageId: id, workspaceId: sender.workspaceId }
    expect(kept.map(({ facts }) => facts)).toMatchObject([whose, whose])
    expect(await feedback.receiveFed({ name: 'ses', route: sender.workspaceId }, [bounce(token)])).toEqual(['recorded'])
    expect(await types(id)).toContain('message.hard_bounced')
  })

  test('is in the log with its class and the recipient’s domain: what operators are warned and numbers are made of', async () => {
    const lines: Facts[] = []
    const watched = newFeedback({ ...silentLog, reported: (facts) => void lines.push(facts) })
    await relayed('installation', 'R-5')
    const reply = {
      action: 'failed',
      code: 550,
      enhancedCode: '5.7.1',
      text: '5.7.1 ann@example.org: blocked',
    } as const
    await watched.receiveFed({ name: 'ses', route: 'installation' }, [{ ...bounce(byId('R-5')), reply }])
    expect(lines).toMatchObject([{ outcome: 'recorded', type: 'soft_bounce', bounce: 'policy', domain: 'example.org' }])
    expect(JSON.stringify(lines)).not.toContain('@')
  })

  test('about mail of a workspace that was removed is answered, and kept nowhere', async () => {
    const token = await byToken(await relayed('installation', 'R-6'))
    await beginRemoval(world.db, sender.workspaceId, 'operator:test')
    await carryOnRemoval(world.db, sender.workspaceId, 'operator:test')
    const feed = { name: 'ses', route: 'installation' } as const
    expect(await feedback.receiveFed(feed, [bounce(byId('R-6'), token)])).toEqual(['unknown_message'])
    expect(await unmatched()).toEqual([])
    expect(await feedback.receiveFed(feed, [bounce(byId('R-6'))])).toEqual(['unknown_message'])
    expect(await unmatched()).toEqual([['unknown_message', 'ses']])
  })

  test('that could mean two messages means none', async () => {
    const ids = [await relayed('installation', 'R-3'), await relayed('installation', 'R-3')]
    expect(await feedback.receiveFed({ name: 'ses', route: 'installation' }, [bounce(byId('R-3'))])).toEqual([
      'unknown_message',
    ])
    for (const id of ids) expect(await types(id)).not.toContain('message.hard_bounced')
  })

  test('with an id that no database can hold is about no message of ours', async () => {
    expect(await feedback.receiveFed({ name: 'generic', route: 'installation' }, [bounce(byId('R\0'))])).toEqual([
      'unknown_message',
    ])
    expect(await unmatched()).toEqual([['unknown_message', 'generic']])
  })

  test('brings no control character into what people read, be it the story, a list or a file', async () => {
    const id = await relayed('installation', 'R-4')
    const report = bounce(byId('R-4'))
    const text = '5.1.1 no \u001b]0;such\u0007\t\u009b2J\u2028user\r\nof ours'
    const wild = { ...report, reply: { ...report.reply, action: 'failed', text, remoteMta: 'mx\u001b[2J' } } as const
    expect(await feedback.receiveFed({ name: 'ses', route: 'installation' }, [wild])).toEqual(['recorded'])
    const kept = await world.db.run<{ detail: string; evidence: string; facts: object }>(
      `select r.detail, s.evidence, e.facts from reports r join suppressions s on s.source_message_id = r.message_id
         join events e on e.message_id = r.message_id and e.sequence = r.sequence where r.message_id = $1`,
      [id],
    )
    expect(kept[0]?.detail).toContain('2J user \nof ours')
    expect(JSON.stringify(kept).replaceAll('\\n', '')).not.toMatch(/\\u00|\\[trbf]|[\x7f-\x9f\u2028]/)
  })

  test('without any evidence is kept so many times a minute: anybody may write to the complaint address', async () => {
    const others = newFeedback()
    const many = Array.from({ length: limits.unmatchedPerMinuteMax + 5 }, () => bounce())
    await others.receiveFed({ name: 'generic', route: 'installation' }, many)
    expect(await world.value('select count(*)::int from unmatched_feedback')).toBe(limits.unmatchedPerMinuteMax)
  })

  test('without any evidence is kept for operators, who can read it, until it is old', async () => {
    await feedback.receiveFed({ name: 'generic', route: 'installation' }, [bounce()])
    const [found] = (await pageUnmatchedFeedback(world.db, 10)).items
    expect(found).toMatchObject({ reason: 'unknown_message', source: 'generic' })
    expect(await findUnmatchedFeedback(world.db, found?.id ?? '')).toMatchObject({
      content: expect.stringContaining('no such user') as string,
    })
    expect(await findUnmatchedFeedback(world.db, 'nothing')).toBeUndefined()
    await pruneUnmatched(world.db)
    expect(await unmatched()).toHaveLength(1)
    await world.db.run(`update unmatched_feedback set received_at = app_now() - interval '31 days'`)
    await pruneUnmatched(world.db)
    expect(await unmatched()).toEqual([])
  })

  test('without any evidence is read page by page, newest first, each once', async () => {
    for (let n = 0; n < 5; n++) await feedback.receiveFed({ name: 'generic', route: 'installation' }, [bounce()])
    const ids: string[] = []
    let before: string | undefined
    do {
      const page = await pageUnmatchedFeedback(world.db, 2, before)
      ids.push(...page.items.map(({ id }) => id))
      before = page.next
    } while (before !== undefined)
    expect(ids).toHaveLength(5)
    expect(ids).toEqual([...new Set(ids)].toSorted().toReversed())
  })
})

test("a relay's ids are forgotten when no report can come any more", async () => {
  await relayed('installation', 'R-old')
  await world.db.run(`update relayed set at = app_now() - interval '31 days' where provider_id = 'R-old'`)
  await pruneReports(world.db, 90)
  expect(await world.value(`select count(*)::int from relayed where provider_id = 'R-old'`)).toBe(0)
})

test('tokens of the last few keys are believed, older ones no more', async () => {
  const keys = () => makeReturnPathKeys(world.db, vault)
  const first = await keys().at(new Date())
  for (let n = 0; n < 3; n++) await rotateReturnPathKey(world.db)
  expect(await keys().named(first.id)).toEqual(first)
  await rotateReturnPathKey(world.db)
  expect(await keys().named(first.id)).toBeUndefined()
  expect((await keys().named('e'))?.id).toBe('e')
})

test('a key for return paths is rotated with its row in the audit log, or not at all', async () => {
  const keys = () => world.value<string>(`select value from installation where name = 'return_path_keys'`)
  const before = await keys()
  await world.db.run(
    `alter table audit_log add constraint full_up check (action <> 'return_path_key.rotated') not valid`,
  )
  await expect(rotateReturnPath(world.db, 'operator:test')).rejects.toThrow('full_up')
  await world.db.run('alter table audit_log drop constraint full_up')
  expect(await keys()).toBe(before)
  const { key } = await rotateReturnPath(world.db, 'operator:test')
  expect(await world.value(`select target from audit_log where action = 'return_path_key.rotated'`)).toBe(key)
})
