// Recipients who are suppressed and taken back through the API while mail to them is on its way: behind the answer nothing to them is accepted, and what is
// claimed then is not sent; behind the answer that takes it back, it is. And what failed is sent again, by several people at once: there is one follower.
import { askUntilAnswered, type AfterAll, type Asked, type Beside, type Scene } from './scene.ts'

/** One for so many messages of the load. */
const messagesOfEach = 40
const behaviours = ['ok', 'deferred-1', 'slow-eod-60ms', 'slow-eod-500ms', 'eod-451-1']
/** Between an arm, which looks at the suppressions, and the end of its dot at the receiver, with a node that stands still and a wire that stalls. */
const underWayMs = 12_000

interface Span {
  readonly recipient: string
  /** Behind the answer that it is suppressed, before it is asked to take that back. */
  readonly from: number
  readonly to: number
}

export async function suppressionsMeanwhile({ fronts, chance, messages, at, open }: Scene): Promise<Beside> {
  const { shop } = await open({ scopes: ['mail.send', 'mail.status.read', 'suppressions.write'] })
  const lives = Math.ceil(messages / messagesOfEach)
  const plans = Array.from({ length: lives }, (_, n) => ({
    recipient: `${chance.of(behaviours)}+p${n}@d${chance.below(8)}.example`,
    again: `eod-550+a${n}@d${chance.below(8)}.example`,
    begins: chance.next() * 0.7,
    ends: 0.2 * chance.next(),
  }))
  const spans: Span[] = []
  const broken: string[] = []
  const accepted: string[] = []
  let sent = 0
  const send = async (recipient: string): Promise<Asked> => {
    const answer = await askUntilAnswered(fronts, {
      key: shop.key,
      path: 'send',
      headers: { 'idempotency-key': `beside-${++sent}` },
      body: shop.body({ recipient }),
    })
    if (answer.status === 202) accepted.push(answer.body.id ?? '')
    return answer
  }
  const expectStatus = (what: string, { status, body }: Asked, wanted: number) => {
    if (status !== wanted) broken.push(`suppression: ${what} is ${status} ${body.code ?? body.id}, not ${wanted}`)
  }

  const suppressed = async ({ recipient, begins, ends }: (typeof plans)[number]): Promise<void> => {
    await at(begins)
    for (const each of await Promise.all([send(recipient), send(recipient)])) expectStatus(recipient, each, 202)
    const asked = await askUntilAnswered(fronts, { key: shop.key, path: 'suppressions', body: { recipient } })
    expectStatus(`suppressing ${recipient}`, asked, 201)
    const from = Date.now()
    for (const each of await Promise.all([send(recipient), send(recipient)]))
      expectStatus(`${recipient}, suppressed,`, each, 422)
    await at(begins + ends)
    const to = Date.now()
    const path = `suppressions/${encodeURIComponent(recipient)}`
    const back = await askUntilAnswered(fronts, { key: shop.key, method: 'DELETE', path })
    expectStatus(`taking back ${recipient}`, back, back.times > 1 && back.status === 404 ? 404 : 204)
    spans.push({ recipient, from, to })
    // A request without an answer may suppress them yet.
    if (asked.times === 1) expectStatus(`${recipient}, taken back,`, await send(recipient), 202)
  }

  const followers = new Map<string, string>()
  const againAtOnce = async (id: string): Promise<void> => {
    const path = `messages/${id}/send-again`
    const answers = await Promise.all(
      [fronts, fronts.toReversed()].map((these) => askUntilAnswered(these, { key: shop.key, path, body: {} })),
    )
    for (const each of answers) expectStatus(`sending ${id} again`, each, 202)
    const ids = new Set([...answers.map(({ body }) => body.id ?? ''), followers.get(id) ?? answers[0]?.body.id ?? ''])
    if (ids.size > 1) broken.push(`twice: ${id} was sent again as ${[...ids].join(' and ')}`)
    followers.set(id, answers[0]?.body.id ?? '')
  }
  const sentAgain = async ({ again, begins }: (typeof plans)[number]): Promise<void> => {
    await at(begins)
    const { status, body } = await send(again)
    if (status !== 202) return void broken.push(`lost: ${again} is ${status}`)
    const id = body.id ?? ''
    for (;;) {
      const now = await askUntilAnswered(fronts, { key: shop.key, method: 'GET', path: `messages/${id}` })
      if (now.body.processingStatus === 'delivery_unknown') return // a quarter of an hour has to go by
      if (now.body.processingStatus === 'failed') break
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    await againAtOnce(id)
    await at(1)
    await againAtOnce(id)
  }

  return {
    accepted,
    recipients: new Set(plans.flatMap(({ recipient, again }) => [recipient, again])),
    suppressed: new Set(plans.map(({ recipient }) => recipient)),
    over: Promise.all(plans.flatMap((plan) => [suppressed(plan), sentAgain(plan)])),
    breaches: async (after) => [
      ...broken,
      ...(await sentThoughSuppressed(spans, after)),
      ...(await notOneFollower(followers, after)),
    ],
  }
}

async function sentThoughSuppressed(spans: readonly Span[], { ledger, query }: AfterAll): Promise<string[]> {
  const claims = await query<{ id: string; recipient: string; status: string; at: string; reason: string | null }>(
    `select m.id, m.recipient, m.status, c.at, e.facts ->> 'reason' reason
       from messages m
       join lateral (select max(occurred_at)::text at from events where message_id = m.id and type = 'message.sending') c on true
       join lateral (select facts from events where message_id = m.id order by sequence desc limit 1) e on true`,
  )
  return spans.flatMap(({ recipient, from, to }) => {
    const within = (at: string, late = 0) => Date.parse(at) > from + late && Date.parse(at) < to
    return [
      ...claims.flatMap(({ id, recipient: theirs, status, at, reason }) =>
        theirs === recipient && at !== null && within(at) && status !== 'failed'
          ? [`suppression: ${id} ${recipient} was claimed ${at} behind the answer, and is ${status} (${reason})`]
          : [],
      ),
      ...ledger.flatMap(({ to: [to], at }) =>
        to === recipient && within(at, underWayMs) ? [`suppression: ${recipient} got mail ${at}, long behind it`] : [],
      ),
    ]
  })
}

async function notOneFollower(followers: ReadonlyMap<string, string>, { query }: AfterAll): Promise<string[]> {
  const rows = await query<{ id: string; again: string; many: number }>(
    `select a.message_id id, a.again_id again,
            (select count(*)::integer from messages x where x.recipient = m.recipient) many
       from sent_again a join messages m on m.id = a.message_id`,
  )
  const found = new Map(rows.map(({ id, again }) => [id, again]))
  return [
    ...rows.flatMap(({ id, many }) => (many === 2 ? [] : [`twice: ${id} and what it was sent again as are ${many}`])),
    ...[...followers].flatMap(([id, again]) =>
      found.get(id) === again ? [] : [`lost: ${id} was sent again as ${again}, and ${found.get(id)} is there`],
    ),
  ]
}
