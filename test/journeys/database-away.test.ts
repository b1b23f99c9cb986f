// What becomes of mail when the wire to PostgreSQL is cut, silent or gone at the worst moments (failure matrix 2 to 5, 9, 10, 12, 14, 37).
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { limits } from '../../src/config.ts'
import { ending } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'
import { makeSmtpLogin, submitterOf, type SmtpLogin } from '../world/submitter.ts'

let receiver: Receiver
let posthorn: Posthorn
let shop: JourneyWorkspace
beforeAll(async () => {
  receiver = await ending(startReceiver, { hold: 'eod' })
  posthorn = await ending(startPosthorn, {
    proxied: true,
    settings: {
      POSTHORN_ROUTE: `smtp://127.0.0.1:${receiver.port}`,
      POSTHORN_LEASE_SECONDS: '2',
      POSTHORN_TIME_SCALE: '600',
    },
  })
  shop = await posthorn.workspace()
})
let before = 0
beforeEach(async () => {
  before = (await receiver.ledger()).length
})

/** Transmissions past the dot since this test began. */
const dots = async () => (await receiver.ledger()).slice(before)
const one = { recipient: 'ok@there.example' }
const records = () =>
  posthorn.query<{ id: string; status: string }>(
    'select id, status from messages where workspace_id = $1 order by id',
    [shop.id],
  )
const charged = async () =>
  (await posthorn.query<{ n: number }>('select month_count n from usage where workspace_id = $1', [shop.id]))[0]?.n
const journal = () => readFileSync(join(posthorn.dataDir, 'delivery', '1', 'journal.jsonl'), 'utf8')

/** A message whose reply came while the database did not answer. */
async function keptInJournal(how: 'away' | 'hold'): Promise<string> {
  const id = await shop.accepted(one)
  await receiver.reached('eod')
  posthorn.proxy()[how](true)
  receiver.release()
  await posthorn.until('in the journal', () => journal().includes(id))
  return id
}

/** The receiver has its dot; its answer is let go. */
async function answered(): Promise<void> {
  await receiver.reached('eod')
  receiver.release()
}

describe('the commit of an acceptance', () => {
  beforeAll(async () => {
    await posthorn.stop()
    await posthorn.startAgain({ POSTHORN_ROLES: 'api' })
    await shop.accepted(one) // what runs only once has run
  })

  test('4: lost before it: 503, nothing kept, nothing charged', async () => {
    const [kept, count] = [(await records()).length, await charged()]
    const cut = posthorn.proxy().cut('admit', 'before')
    const answer = await shop.send(one)
    await cut
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, expect.stringMatching(/^\d+$/)])
    expect([(await records()).length, await charged()]).toEqual([kept, count])
  })

  test('4: lost after it: 202, because the row is found', async () => {
    const cut = posthorn.proxy().cut('admit', 'after')
    const answer = await shop.send(one)
    await cut
    expect(answer.status).toBe(202)
    expect((await records()).map(({ id }) => id)).toContain(answer.body.id)
  })

  test('4: lost while it ran: told what is true', async () => {
    for (let n = 0; n < 5; n++) {
      const subject = `Lost while it ran ${n}`
      const cut = posthorn.proxy().cut('admit', 'during')
      const answer = await shop.send({ ...one, subject })
      await cut
      const kept = await posthorn.query<{ id: string }>('select id from messages where subject = $1', [subject])
      // A commit that nobody was told of may still land; a yes is never wrong, and nothing is kept twice.
      if (answer.status === 202) expect(kept).toEqual([{ id: answer.body.id }])
      else expect([answer.status, kept.length <= 1]).toEqual([503, true])
    }
  })

  test('2: the client is gone before its answer: stored once, and a repeat with its key gets the same id', async () => {
    const hold = posthorn.proxy().silence('admit', 'after')
    const gone = new AbortController()
    const post = (signal?: AbortSignal) =>
      fetch(`${posthorn.url}/api/v1/send`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${shop.key}`,
          'content-type': 'application/json',
          'idempotency-key': 'order-9',
        },
        body: JSON.stringify(shop.body({ ...one, subject: 'Order 9' })),
        ...(signal !== undefined && { signal }),
      })
    const lost = post(gone.signal).catch(() => 'gone')
    await hold
    gone.abort()
    expect(await lost).toBe('gone')
    const again = await until202(post)
    const keyed = await posthorn.query(`select message_id id from idempotency_keys where key = 'order-9'`)
    expect(keyed).toEqual([{ id: again }])
    expect(await posthorn.query(`select id from messages where subject = 'Order 9'`)).toEqual(keyed)
  })

  test('5: away: 503 with Retry-After at once; hanging: within 5 s; and both end by themselves', async () => {
    for (const [on, withinMs] of [
      ['away', 1_500],
      ['hold', 5_500],
    ] as const) {
      const kept = (await records()).length
      posthorn.proxy()[on](true)
      const began = performance.now()
      const answers = await Promise.all(Array.from({ length: 20 }, () => shop.send(one)))
      expect(performance.now() - began).toBeLessThan(withinMs)
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]))
      expect(answers.every(({ headers }) => Number(headers.get('retry-after')) > 0)).toBe(true)
      expect((await fetch(`${posthorn.url}/healthz`)).status).toBe(200)
      const patience = { signal: AbortSignal.timeout(3_000) }
      expect((await fetch(`${posthorn.url}/readyz`, patience)).status).toBe(503)
      posthorn.proxy()[on](false)
      await posthorn.until('accepts again', async () => (await shop.send(one)).status === 202)
      // What hung on the wire may have landed after the answer 503: kept more than told is allowed, the other way is not.
      expect((await records()).length).toBeGreaterThan(kept)
    }
  }, 120_000)

  test.each(['stage-blob', 'stage-chunk'])(
    '5: hanging when large content is on its way (%s): 503 within 5 s, nothing of it is kept, and it ends by itself',
    async (statement) => {
      const large = { ...one, subject: `Large, ${statement}`, bodyText: 'x'.repeat(limits.contentInlineBytesMax + 1) }
      const hangs = posthorn.proxy().holdAt(statement)
      const sending = shop.send(large)
      await hangs
      const began = performance.now()
      const answer = await sending.finally(() => posthorn.proxy().hold(false))
      expect(performance.now() - began).toBeLessThan(5_500)
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, expect.stringMatching(/^\d+$/)])
      await posthorn.until('accepts again', async () => (await shop.send(large)).status === 202)
      expect(await posthorn.query('select from messages where subject = $1', [large.subject])).toHaveLength(1)
    },
    120_000,
  )

  test.each([
    ['before its commit: nothing is kept', 'before', 0],
    ['after its commit, before the answer: kept once', 'after', 1],
  ] as const)('3: killed %s', async (_, moment, more) => {
    const kept = (await records()).length
    const reached = posthorn.proxy().silence('admit', moment)
    const lost = shop.send(one).catch(() => 'gone')
    await reached
    await posthorn.kill9()
    expect(await lost).toBe('gone')
    expect((await records()).length).toBe(kept + more)
    await posthorn.startAgain({ POSTHORN_ROLES: 'api' })
  })

  test('and what was kept is delivered once each, whatever its caller was told', async () => {
    await posthorn.stop()
    const kept = await records()
    await posthorn.query(`update outbound set due_at = app_now()`)
    await posthorn.startAgain({ POSTHORN_ROLES: 'all' })
    for (const _ of kept) await answered()
    await posthorn.until('all sent', async () => (await records()).every(({ status }) => status === 'sent'))
    expect(new Set((await dots()).map(({ messageId }) => messageId)).size).toBe(kept.length)
    expect((await dots()).length).toBe(kept.length)
  }, 120_000)
})

describe('the commit of an acceptance over SMTP', () => {
  let login: SmtpLogin
  beforeAll(async () => {
    await posthorn.stop()
    await posthorn.startAgain({ POSTHORN_ROLES: 'api,smtp' })
    login = await makeSmtpLogin(posthorn, shop)
    expect(await handIn(0)).toMatch(/^250 /)
  })
  afterAll(async () => {
    await posthorn.stop()
    await posthorn.query('delete from outbound')
    await posthorn.startAgain({ POSTHORN_ROLES: 'all' })
  })

  /** One mail, always the same octets for the same number; answers what the final dot was answered with. */
  async function handIn(n: number): Promise<string> {
    const transport = submitterOf(posthorn, login)
    const head = `From: <${shop.address}>\r\nTo: <ok@there.example>\r\nSubject: By SMTP ${n}\r\nMessage-ID: <away-${n}@client.example>\r\n`
    const raw = `${head}Date: Fri, 20 Nov 2026 10:00:00 +0100\r\n\r\nHello\r\n`
    try {
      const sent: { response: string } = await transport.sendMail({
        envelope: { from: shop.address, to: ['ok@there.example'] },
        raw,
      })
      return sent.response
    } catch (error) {
      return (error as { response?: string }).response ?? String(error)
    } finally {
      transport.close()
    }
  }
  const keptAs = (n: number) =>
    posthorn.query<{ id: string }>('select id from messages where subject = $1', [`By SMTP ${n}`])

  test.each([
    [1, 'cut', 'before'],
    [2, 'silence', 'before'],
    [3, 'cut', 'during'],
    [4, 'cut', 'after'],
    [5, 'silence', 'after'],
  ] as const)(
    '4, 5, 9: (%i) its wire %s %s it: 250 only where the row is found, else 451 in time; the same mail again is the same message',
    async (n, act, moment) => {
      const struck = act === 'cut' ? posthorn.proxy().cut('admit', moment) : posthorn.proxy().silence('admit', moment)
      const began = performance.now()
      const answer = await handIn(n)
      await struck
      expect(performance.now() - began).toBeLessThan(limits.submissionAnswerMs)
      const kept = await keptAs(n)
      if (moment === 'before') expect([answer.slice(0, 3), kept]).toEqual(['451', []])
      else if (moment === 'after') expect(answer).toContain(kept[0]?.id)
      else expect(answer).toMatch(/^(?:250|451) /)
      // Whoever was told no, or nothing, asks again.
      const again = await handIn(n)
      expect(await keptAs(n)).toEqual([{ id: /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(again)?.[0] }])
    },
    60_000,
  )
})

describe('delivery', () => {
  test('10: killed before the claim commits: it stays queued, without an event', async () => {
    const reached = posthorn.proxy().silence('claim', 'before')
    await reached
    const id = await shop.accepted(one)
    await posthorn.kill9()
    expect(await posthorn.query('select type from events where message_id = $1', [id])).toEqual([
      { type: 'message.queued' },
    ])
    await posthorn.startAgain()
    await answered()
    expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
    expect(await dots()).toHaveLength(1)
  })

  test('12: killed after the arm, before the dot: delivery_unknown, and nothing at the receiver', async () => {
    const armed = posthorn.proxy().silence('arm', 'after')
    const id = await shop.accepted(one)
    await armed
    await posthorn.kill9()
    await posthorn.startAgain()
    expect(await shop.settled(id)).toMatchObject({ processingStatus: 'delivery_unknown' })
    expect(await dots()).toEqual([])
  })

  test('an arm whose commit is not known is renounced, taken back and tried again: one copy', async () => {
    for (const moment of ['before', 'during', 'after'] as const) {
      const cut = posthorn.proxy().cut('arm', moment)
      const id = await shop.accepted(one)
      await cut
      await answered()
      expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
      expect(await shop.events(id)).toEqual(
        ['queued', 'sending', 'retrying', 'sending', 'sent'].map((type) => `message.${type}`),
      )
    }
    expect(await dots()).toHaveLength(3)
  }, 90_000)

  test('14: killed between the 250 and its record: one copy; within the first second it is delivery_unknown', async () => {
    const lost = posthorn.proxy().silence('finish-relayed', 'before')
    const id = await shop.accepted(one)
    await answered()
    await lost
    await posthorn.kill9()
    await posthorn.startAgain()
    // Later than that the journal has it (37); in between, either is true.
    expect(['delivery_unknown', 'sent']).toContain((await shop.settled(id)).processingStatus)
    expect(await dots()).toHaveLength(1)
  })

  test('37: away between the dot and its reply: the journal keeps the reply, and the message is sent', async () => {
    const id = await keptInJournal('away')
    posthorn.proxy().away(false)
    expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
    await posthorn.until('the journal is empty', () => journal() === '')
    expect(await dots()).toHaveLength(1)
  })

  test('37: and when everything is killed meanwhile, the next start tells it', async () => {
    const id = await keptInJournal('hold')
    await posthorn.kill9()
    posthorn.proxy().hold(false)
    await posthorn.startAgain()
    const { processingStatus, message } = await shop.settled(id)
    expect([processingStatus, message.providerMessageId]).toEqual(['sent', 'R1'])
    expect(await dots()).toHaveLength(1)
  })

  test('37: also where the lease ran out first, and the reaper wrote delivery_unknown: late proof', async () => {
    const id = await keptInJournal('hold')
    await posthorn.kill9()
    // Another machine's worker reaps it.
    await posthorn.query(`update outbound set lease_until = app_now() - interval '1 second' where message_id = $1`, [
      id,
    ])
    await posthorn.query('select * from reap_3(10, 10, true)')
    expect(await posthorn.query('select status from messages where id = $1', [id])).toEqual([
      { status: 'delivery_unknown' },
    ])
    posthorn.proxy().hold(false)
    await posthorn.startAgain()
    await shop.until(id, ({ processingStatus }) => processingStatus === 'sent')
    expect(await dots()).toHaveLength(1)
  })
})

/** The id of the first 202. */
async function until202(post: () => Promise<Response>): Promise<string> {
  for (;;) {
    const answer = await post()
    const body = (await answer.json()) as { id: string }
    if (answer.status === 202) return body.id
    expect([409, 503]).toContain(answer.status)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}
