// Senders among faults, by chance that can be had again: the statements are the real ones, against the real PostgreSQL, one at a time, and each waits at a gate
// until the run lets it go on, loses it, or its answer; receivers are a function; every timer and both clocks are the run's own. What must hold is looked at
// when a request begins, and at the end.
import { createHmac } from 'node:crypto'
import { vi } from 'vitest'
import { chance } from '../../test/world/random.ts'
import { silentLog, type Log } from '../base/log.ts'
import { limits } from '../config.ts'
import { isRefusal } from '../domain/refusal.ts'
import { eventId } from '../domain/event.ts'
import type { MessageId } from '../domain/message.ts'
import { openDatabase, type Db, type Statement } from '../store/database.ts'
import { beginRemoval, carryOnRemoval } from '../store/removal.ts'
import { isHeldUp } from '../store/held-rows.ts'
import { storeWorld, type Sender } from '../store/store.test-kit.ts'
import type { Post } from './post.ts'
import { anywhere, vault } from './sender.test-kit.ts'
import type { PostFacts } from './verdict.ts'
import { makeWebhookDesk, webhookSender } from './webhooks.ts'

const timeScale = 2_000
const leaseMs = 6_000
const laddersMs = limits.webhookScheduleSeconds.map((seconds) => (seconds * 1_000) / timeScale)
const failingMs = limits.webhookFailingMs / timeScale
/** So long, in real time, one waits for the lock of another. */
const lockMs = 40

/** In real time: no step of a run takes so long, whatever the machine does besides. */
const stepMsMax = 60_000

/** The real ones: a run's own stand still. */
const { setTimeout: realTimeout, clearTimeout: clearReal } = globalThis

interface RunOptions {
  readonly steps: number
  /** Somebody has whole tables now and then, too: whoever wants to write there meets the end of its patience. */
  readonly wholeTables: boolean
  /** Called before each step with how many transactions are open; what it throws ends the run. */
  before(open: number): void
}
const usual: RunOptions = { steps: 220, wholeTables: false, before: () => undefined }

interface Question {
  readonly node: Node
  readonly statement: Statement
  readonly values: readonly unknown[]
  answer(rows: readonly object[]): void
  fail(error: Error): void
}

interface Moment {
  readonly step: number
  readonly at: number
}

/** A statement that was executed and waits for its commit. */
interface Open {
  readonly executed: Moment
  readonly question: Question
  readonly rows: readonly object[]
  end(how: 'commit' | 'rollback'): Promise<boolean>
}

interface Claimed {
  readonly name: string
  readonly node: Node
  /** When it was executed. */
  readonly step: number
  readonly at: number
  /** The step from which on others see it. */
  readonly seenFrom: number
  readonly clockSteps: number
  readonly round: number
  readonly attempts: number
  /** Its answer was lost, or has not come yet. */
  heard: boolean
  posted: boolean
  answered: boolean
  /** Its result is written. */
  ended: boolean
}

interface Request {
  readonly node: Node
  readonly post: Post
  readonly event: EventOf
  readonly claim: Claimed | undefined
  end(facts: Omit<PostFacts, 'durationMs'>): void
}

interface Shop extends Sender {
  url: string
  /** All that it ever had. */
  readonly secrets: string[]
  readonly name: string
  /** The step in which it got its address. */
  changedAt: number
  /** What is claimed then leaves the queue. */
  wasDisabled: boolean
  removedAt: number
}

interface EventOf {
  readonly shop: Shop
  readonly message: string
  readonly sequence: number
  /** The step at which it was put into the outbox last. */
  putAt: number
  replays: number
  readonly claims: Claimed[]
  posts: number
  taken: number
}

interface Node {
  readonly name: string
  readonly sender: ReturnType<typeof webhookSender>
  wake: () => void
  isDead: boolean
  isStopping: boolean
}

/** Ids of one run do not come again in the next. */
let startedAt = Date.now()

class Lost extends Error {
  readonly code = 'ECONNRESET'
}

const lost = () => new Lost('the line was cut')

/** Nothing is under way but what waits at a gate. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 6; turn++) await new Promise((resolve) => setImmediate(resolve))
}

export interface Told {
  readonly breaches: readonly string[]
  /** What happened, line by line. */
  readonly story: readonly string[]
  readonly counts: Readonly<Record<string, number>>
}

export async function faultyWorld() {
  const world = await storeWorld()
  await world.db.run('create unlogged table clock (at timestamptz not null)')
  await world.db.run('insert into clock select now()')
  await world.db.run(
    `create or replace function app_now() returns timestamptz language sql stable as 'select at from clock'`,
  )
  const kind = { name: 'faulty', connectionsMax: 6, mayForget: true } as const
  return {
    close: () => world.close(),
    run: async (seed: number, options: Partial<RunOptions> = {}): Promise<Told> => {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] })
      const db = openDatabase(world.connection, { ...kind, answerMs: 10_000, lockMs })
      const own = openDatabase(world.connection, { ...kind, answerMs: stepMsMax })
      const run = new Run({ ...usual, ...options }, world, db, own, seed)
      try {
        return await run.whole()
      } finally {
        vi.useRealTimers()
        vi.restoreAllMocks()
        // A pool closes when nobody has a line of it any more.
        run.letGo()
        await Promise.all([db.close(), own.close()])
        await world.db.run('delete from webhook_queue')
        await world.db.run(`update webhook_endpoints set state = 'disabled', reason = 'by_hand' where state = 'active'`)
      }
    },
  }
}

class Run {
  readonly #world: Awaited<ReturnType<typeof storeWorld>>
  readonly #options: RunOptions
  /** Of the nodes, and of those who change something. */
  readonly #db: Db
  /** For what the run itself writes and looks at: it waits for its locks. */
  readonly #own: Db
  readonly #chance: ReturnType<typeof chance>
  readonly #story: string[] = []
  readonly #breaches: string[] = []
  readonly #counts: Record<string, number> = {}
  readonly #nodes: Node[] = []
  readonly #questions: Question[] = []
  readonly #opens: Open[] = []
  readonly #requests: Request[] = []
  /** Begun since the last look. */
  readonly #begun: Request[] = []
  readonly #shops: Shop[] = []
  readonly #events = new Map<string, EventOf>()
  /** When nobody lived for longer than from one heartbeat to the next. */
  readonly #leaps: number[] = []
  #step = 0
  #clockSteps = 0
  #messages = 0
  #isCalm = false
  /** Ends the transaction of somebody who holds rows. */
  #free: (() => Promise<void>) | undefined

  constructor(options: RunOptions, world: Awaited<ReturnType<typeof storeWorld>>, db: Db, own: Db, seed: number) {
    this.#options = options
    this.#world = world
    this.#db = db
    this.#own = own
    this.#chance = chance(seed)
    vi.spyOn(Math, 'random').mockImplementation(() => this.#chance.next())
  }

  async whole(): Promise<Told> {
    startedAt += 1_000
    await this.#own.run('update clock set at = now()')
    for (let count = 0; count < 3; count++) await this.#newShop(count)
    for (let count = 0; count < 2; count++) await this.#newNode()
    while (this.#step < this.#options.steps) await this.#next()
    await this.#calm()
    await this.#lookAtTheEnd()
    return { breaches: this.#breaches, story: this.#story, counts: this.#counts }
  }

  /** Nothing of it is open any more, wherever it has ended. */
  letGo(): void {
    for (const one of this.#opens.splice(0)) void one.end('rollback')
    void this.#free?.()
  }

  get #moment(): Moment {
    return { step: this.#step, at: performance.now() }
  }
  #say(what: string): void {
    this.#story.push(`${this.#step} ${Math.round(performance.now())} ${what}`)
    const [name = ''] = what.split(':')
    this.#counts[name] = (this.#counts[name] ?? 0) + 1
  }
  #breach(what: string): void {
    this.#say(`BREACH: ${what}`)
    this.#breaches.push(what)
  }

  // --- who is there

  async #newShop(count: number): Promise<void> {
    const sender = await this.#world.sender()
    const name = `shop${count}`
    const shop: Shop = { ...sender, name, url: '', secrets: [], changedAt: 0, wasDisabled: false, removedAt: Infinity }
    const made = await this.#deskOver(this.#own).set(sender.workspaceId, { url: this.#urlOf(shop, 0) }, 'operator:test')
    if (isRefusal(made)) throw new Error(made.words)
    shop.url = made.url
    shop.secrets.push(made.secret ?? '')
    this.#shops.push(shop)
  }
  #urlOf(shop: Shop, turn: number): string {
    return `http://127.0.0.1:1/${shop.name}/${shop.workspaceId}/${turn}`
  }
  get #desk() {
    return this.#deskOver(this.#db)
  }
  #deskOver(db: Db) {
    return makeWebhookDesk({ db, vault, targets: anywhere, timeScale: 1 })
  }

  async #newNode(): Promise<void> {
    const name = `node${this.#nodes.length}`
    const gate: Db['rows'] = (statement, values = []) =>
      new Promise((resolve, reject) => {
        if (node.isDead) return
        this.#questions.push({ node, statement, values, answer: resolve as Question['answer'], fail: reject })
      })
    const gated = (): Db => ({ rows: gate, run: never, transaction: never, close: () => Promise.resolve() })
    const log: Log = {
      ...silentLog,
      fault: (what, error) => {
        if (node.isDead || error instanceof Lost || /lock timeout|statement timeout|webhooks wait/.test(String(error)))
          return
        this.#breach(`${name} had a fault: ${what}: ${error instanceof Error ? error.stack : String(error)}`)
      },
    }
    const node: Node = {
      name,
      isDead: false,
      isStopping: false,
      wake: () => undefined,
      sender: webhookSender({
        db: gated(),
        resultDb: gated(),
        vault,
        log,
        version: 'test',
        leaseMs,
        timeScale,
        patience: new AbortController().signal,
        poster: {
          post: (post) => this.#request(node, post),
          giveUp: () => {
            for (const request of this.#requests.filter((each) => each.node === node))
              request.end({ trouble: 'shutdown' })
          },
          close: () => Promise.resolve(),
        },
        onDue: (wake) => {
          node.wake = wake
          return { stop: () => Promise.resolve() }
        },
      }),
    }
    this.#nodes.push(node)
    await node.sender.start()
    this.#say(`node starts: ${name}`)
  }
  get #living(): Node[] {
    return this.#nodes.filter(({ isDead }) => !isDead)
  }

  // --- receivers

  #request(node: Node, post: Post): Promise<PostFacts> {
    if (node.isDead) return new Promise(() => undefined)
    const body = JSON.parse(post.body.toString()) as { id: string; data: Record<string, unknown> }
    const event = this.#events.get(body.id)
    if (event === undefined) throw new Error(`nobody knows the event ${body.id}`)
    const claim = event.claims.find((each) => each.node === node && each.heard && !each.posted && !each.ended)
    if (claim !== undefined) claim.posted = true
    event.posts++
    const startedAt = performance.now()
    return new Promise((resolve) => {
      const request: Request = {
        node,
        post,
        event,
        claim,
        end: (facts) => {
          this.#requests.splice(this.#requests.indexOf(request), 1)
          if (claim !== undefined) claim.answered = true
          if (facts.trouble === undefined && facts.status === 200) event.taken++
          resolve({ ...facts, durationMs: Math.round(performance.now() - startedAt) })
        },
      }
      this.#requests.push(request)
      this.#begun.push(request)
      this.#say(
        `request: ${node.name} ${nameOf(event)} ${claim === undefined ? '?' : `${claim.round}.${claim.attempts}`}`,
      )
    })
  }

  /** What must hold when a request begins. */
  async #lookAtBegun(): Promise<void> {
    for (const { post, event, claim, node } of this.#begun.splice(0)) {
      const { shop, message, sequence } = event
      const what = `${nameOf(event)} by ${node.name}`
      if (!post.url.pathname.startsWith(`/${shop.name}/${shop.workspaceId}/`))
        this.#breach(`${what} goes to ${post.url.href}`)
      const headers = new Map(
        post.headers.flatMap((name, at) => (at % 2 === 0 ? [[name, post.headers[at + 1] ?? '']] : [])),
      )
      const signed = `${headers.get('Webhook-Timestamp')}.${post.body.toString()}`
      const isOf = (secret: string) =>
        headers.get('Webhook-Signature') === `v1=${createHmac('sha256', secret).update(signed).digest('hex')}`
      if (!shop.secrets.some(isOf)) this.#breach(`${what} has a signature of nobody's`)
      if (claim === undefined) {
        this.#breach(`${what} is posted without a claim`)
        continue
      }
      if (claim.step > shop.changedAt && post.url.href !== shop.url)
        this.#breach(`${what} goes to an address of before`)
      const rows = await this.#own.run<{ sequence: number; round: number; attempts: number; leased: boolean }>(
        `select sequence, round, attempts, lease_until is not null leased from webhook_queue
          where workspace_id = $1 and message_id = $2 and sequence <= $3 order by sequence`,
        [shop.workspaceId, message, sequence],
      )
      const own = rows.find((row) => row.sequence === sequence)
      const isMoved = event.putAt > claim.step || shop.removedAt > claim.step || this.#clockSteps > claim.clockSteps
      if (own === undefined && !isMoved && shop.removedAt === Infinity) this.#breach(`${what} is posted behind its end`)
      for (const row of rows) {
        if (row.sequence === sequence || this.#clockSteps > claim.clockSteps) continue
        const before = this.#events.get(eventId(message as MessageId, row.sequence))
        // Posted again since.
        if (before === undefined || before.putAt > claim.step) continue
        const last = before.claims.findLast(({ round, attempts }) => round === row.round && attempts === row.attempts)
        // What waited for its next try when this one was claimed is no hindrance.
        const wasClaimed = last === undefined || row.attempts === 1 || last.seenFrom <= claim.step
        if (row.leased && wasClaimed && last?.answered !== true)
          this.#breach(`${what} is posted before ${row.sequence}, which is claimed and was not answered`)
        if (!row.leased && row.attempts === 0)
          this.#breach(`${what} is posted before ${row.sequence}, which was not tried`)
      }
    }
  }

  // --- one step

  async #next(): Promise<void> {
    this.#options.before(this.#opens.length + (this.#free === undefined ? 0 : 1))
    const late = Promise.withResolvers<never>()
    const timer = realTimeout(
      () => late.reject(new Error(`step ${this.#step} stands still:\n${this.#story.slice(-40).join('\n')}`)),
      stepMsMax,
    )
    await Promise.race([this.#stepOn(), late.promise]).finally(() => clearReal(timer))
  }

  async #stepOn(): Promise<void> {
    this.#step++
    const choices = [
      ...this.#ofStatements(),
      ...this.#ofRequests(),
      ...this.#ofTime(),
      ...(this.#isCalm ? [] : this.#ofOthers()),
    ]
    await this.#chance.weighted(choices).act()
    await settled()
    await this.#lookAtBegun()
  }

  #ofStatements() {
    const bad = this.#isCalm ? 0 : 1
    const choices: Choice[] = []
    for (const question of this.#questions) {
      const act = (how: () => Promise<void>) => async () => {
        this.#questions.splice(this.#questions.indexOf(question), 1)
        await how()
      }
      const { node, statement } = question
      const say = (what: string) => this.#say(`${what} ${statement.name}: ${node.name}`)
      choices.push(
        { weight: 10, act: act(() => this.#execute(question)) },
        {
          weight: 0.15 * bad,
          act: act(async () => {
            say('lost before')
            question.fail(lost())
          }),
        },
        {
          weight: 0.4 * bad,
          act: act(async () => {
            say('lost behind')
            await this.#execute(question, 'lost')
          }),
        },
        {
          weight: this.#opens.length > 1 || !/claim|end|reap|heartbeat/.test(statement.name) ? 0 : 0.7 * bad,
          act: act(async () => {
            say('open')
            await this.#begin(question)
          }),
        },
      )
    }
    for (const one of this.#opens) {
      const end = (how: 'commit' | 'rollback', isHeard: boolean) => async () => {
        this.#opens.splice(this.#opens.indexOf(one), 1)
        this.#say(`${how}${isHeard ? '' : ' unheard'}: ${one.question.node.name} ${one.question.statement.name}`)
        const isCommitted = await one.end(how)
        if (isCommitted) await this.#committed(one.question, one.rows, isHeard, one.executed)
        if (isCommitted && isHeard) one.question.answer(one.rows)
        else one.question.fail(lost())
      }
      choices.push(
        { weight: 3, act: end('commit', true) },
        { weight: 0.4 * bad, act: end('commit', false) },
        { weight: 0.4 * bad, act: end('rollback', false) },
      )
    }
    return choices
  }

  async #execute(question: Question, end: 'heard' | 'lost' = 'heard'): Promise<void> {
    const { statement, values } = question
    try {
      const rows = await this.#db.rows<object>(statement, values)
      await this.#committed(question, rows, end === 'heard')
      if (end === 'heard') question.answer(rows)
      else question.fail(lost())
    } catch (error) {
      question.fail(error as Error)
    }
  }

  async #begin(question: Question): Promise<void> {
    const executed = Promise.withResolvers<readonly object[]>()
    const ending = Promise.withResolvers<undefined>()
    const over = this.#db
      .transaction(async (tx) => {
        const rows = await tx.rows<object>(question.statement, question.values)
        executed.resolve(rows)
        await ending.promise
        return true
      })
      .catch((error: unknown) => {
        executed.reject(error)
        return false
      })
    try {
      const rows = await executed.promise
      const end: Open['end'] = (how) => {
        if (how === 'commit') ending.resolve(undefined)
        else ending.reject(lost())
        return over
      }
      this.#opens.push({ executed: this.#moment, question, rows, end })
    } catch (error) {
      question.fail(error as Error)
    }
  }

  async #committed(
    { node, statement, values }: Question,
    rows: readonly object[],
    isHeard: boolean,
    { step, at } = this.#moment,
  ): Promise<void> {
    if (statement.name === 'webhook-end') {
      const results = JSON.parse(String(values[0])) as Result[]
      for (const { m, s, claim: name } of results)
        for (const claim of this.#events.get(eventId(m as MessageId, s))?.claims ?? [])
          if (claim.name === name) claim.ended = true
      for (const row of rows as readonly DisabledRow[])
        if (row.workspace_id !== null) this.#lookAtDisabled(row, results)
    }
    if (statement.name !== 'webhook-claim') return
    for (const row of rows as readonly ClaimRow[]) {
      if (row.lanes !== null) continue
      const event = this.#events.get(eventId(row.message_id as MessageId, row.sequence))
      if (event === undefined) continue
      const { round, attempts } = row
      this.#say(`claimed: ${node.name} ${nameOf(event)} ${round}.${attempts}${isHeard ? '' : ' unheard'}`)
      await this.#lookAtSchedule(event, row)
      event.claims.push({
        name: values[6] as string,
        node,
        step,
        at,
        seenFrom: this.#step,
        clockSteps: this.#clockSteps,
        round,
        attempts,
        heard: isHeard,
        posted: false,
        answered: false,
        ended: false,
      })
    }
  }

  #lookAtDisabled({ workspace_id: workspace, reason }: DisabledRow, results: readonly Result[]): void {
    const shop = this.#shops.find(({ workspaceId }) => workspaceId === workspace)
    if (shop === undefined) return
    shop.wasDisabled = true
    this.#say(`disabled by itself: ${shop.name} ${reason}`)
    const isGone = ({ w, status, attempt, delivered }: Result) =>
      w === workspace && status === 410 && attempt === 8 && !delivered
    if (reason === 'receiver_gone' && !results.some(isGone)) this.#breach(`${shop.name} is gone, and nobody said so`)
    if (reason === 'no_success' && performance.now() < failingMs && this.#clockSteps === 0)
      this.#breach(`${shop.name} is disabled after ${performance.now()} ms`)
  }

  async #lookAtSchedule(event: EventOf, { round, attempts }: ClaimRow): Promise<void> {
    if (attempts > 8) this.#breach(`${nameOf(event)} has the try ${attempts}`)
    if (attempts < 2 || this.#clockSteps > 0 || event.shop.removedAt < Infinity) return
    const [before] = await this.#own.run<{ since: number }>(
      `select (extract(epoch from app_now() - ended_at) * 1000)::float8 since from webhook_attempts
        where workspace_id = $1 and message_id = $2 and sequence = $3 and round = $4 and attempt = $5`,
      [event.shop.workspaceId, event.message, event.sequence, round, attempts - 1],
    )
    const step = laddersMs[attempts - 2] ?? 0
    if (before === undefined) this.#breach(`${nameOf(event)} has the try ${attempts}, and none before it`)
    else if (before.since < 0.79 * step - 2)
      this.#breach(`${nameOf(event)} is tried again after ${before.since} of ${step} ms`)
  }

  #ofRequests(): Choice[] {
    return this.#requests.flatMap((request) => {
      const end = (facts: Omit<PostFacts, 'durationMs'>) => async () => {
        this.#say(
          `answer ${facts.lack === undefined ? (facts.trouble ?? facts.status) : 'lack'}: ${request.node.name} ${nameOf(request.event)}`,
        )
        if (facts.lack !== undefined) {
          request.event.posts--
          if (request.claim !== undefined) request.claim.posted = false
        }
        request.end(facts)
        return Promise.resolve()
      }
      const bad = this.#isCalm ? 0 : 1
      return [
        { weight: 5, act: end({ status: 200 }) },
        { weight: 2 * bad, act: end({ status: 500 }) },
        { weight: 0.6 * bad, act: end({ status: 410 }) },
        { weight: 0.3 * bad, act: end({ status: 503, retryAfterSeconds: 600 }) },
        { weight: 0.5 * bad, act: end({ trouble: 'timeout' }) },
        { weight: 0.5 * bad, act: end({ trouble: 'connect_failed', lack: 'no file' }) },
      ]
    })
  }

  #ofTime(): Choice[] {
    const pass = (ms: number) => () => this.#pass(ms)
    const isBusy = this.#questions.length + this.#requests.length + this.#opens.length > 0
    if (this.#isCalm) return [{ weight: isBusy ? 0 : 1, act: pass(500) }]
    return [
      { weight: 6, act: pass(5) },
      { weight: 3, act: pass(40) },
      { weight: 1, act: pass(600) },
      { weight: 0.5, act: pass(3_000) },
      { weight: 0.15, act: pass(9_000) },
      { weight: 0.05, act: pass(80_000) },
    ]
  }
  async #pass(ms: number): Promise<void> {
    if (ms > leaseMs / 3) this.#leaps.push(performance.now())
    await this.#own.run(`update clock set at = at + $1 * interval '1 millisecond'`, [ms])
    vi.advanceTimersByTime(ms)
  }

  // --- what others do

  #ofOthers(): Choice[] {
    const shop = this.#chance.of(this.#shops)
    const known = [...this.#events.values()]
    const here = shop.removedAt === Infinity
    const change = (what: string, weight: number, work: () => Promise<unknown>): Choice => ({
      weight: here ? weight : 0,
      act: async () => {
        this.#say(`${what}: ${shop.name}`)
        await this.#unlessHeld(work())
      },
    })
    return [
      { weight: here && known.length < 40 ? 5 : 0, act: () => this.#write(shop) },
      change('disabled', 0.1, async () => {
        await this.#desk.disable(shop.workspaceId, 'operator:test')
        shop.wasDisabled = true
      }),
      change('enabled', 0.5, () => this.#desk.enable(shop.workspaceId, 'operator:test')),
      change('another address', 0.15, async () => {
        const made = await this.#desk.set(shop.workspaceId, { url: this.#urlOf(shop, this.#step) }, 'operator:test')
        if (isRefusal(made)) throw new Error(made.words)
        shop.url = made.url
        shop.changedAt = this.#step
      }),
      change('other types', 0.1, () =>
        this.#desk.set(
          shop.workspaceId,
          { url: shop.url, events: this.#chance.happens(0.5) ? null : ['message.sent'] },
          'operator:test',
        ),
      ),
      change('rotated', 0.15, async () => {
        const made = await this.#desk.rotate(shop.workspaceId, 'operator:test')
        if (!isRefusal(made)) shop.secrets.push(made.secret ?? '')
      }),
      change('promoted', 0.15, () => this.#desk.promote(shop.workspaceId, 'operator:test')),
      change('removed', 0.02, async () => {
        await beginRemoval(this.#db, shop.workspaceId, 'operator:test')
        shop.removedAt = this.#step
        await carryOnRemoval(this.#db, shop.workspaceId, 'operator:test')
      }),
      change('all again', 0.1, async () => {
        const [now] = await this.#own.run<{ at: Date }>('select at from clock')
        const to = new Date((now?.at.getTime() ?? 0) + 1_000)
        const range = { from: new Date(to.getTime() - 86_400_000), to, undelivered: this.#chance.happens(0.5) }
        try {
          await this.#desk.replayRange(shop.workspaceId, range, 'operator:test')
        } finally {
          await this.#noteReplays(shop)
        }
      }),
      {
        weight: known.length > 0 ? 0.4 : 0,
        act: async () => {
          const event = this.#chance.of(known)
          if (event.shop.removedAt < Infinity) return
          this.#say(`again: ${nameOf(event)}`)
          const id = eventId(event.message as MessageId, event.sequence)
          await this.#unlessHeld(this.#desk.replayEvent(event.shop.workspaceId, id, 'operator:test'))
          await this.#noteReplays(event.shop)
          this.#wake()
        },
      },
      { weight: 0.08, act: () => this.#kill() },
      { weight: 0.06, act: () => this.#stop() },
      { weight: this.#living.length < 2 ? 1 : 0, act: () => this.#newNode() },
      {
        weight: 0.05,
        act: async () => {
          const ms = this.#chance.of([-60_000, -2_000, 2_000, 20_000])
          this.#say(`clock steps: ${ms}`)
          this.#clockSteps++
          await this.#own.run(`update clock set at = at + $1 * interval '1 millisecond'`, [ms])
        },
      },
      ...(this.#free === undefined ? this.#ofHolders(shop) : [{ weight: 1, act: this.#free }]),
    ]
  }

  /** Who meets a lock is told to come again. */
  #unlessHeld(work: Promise<unknown>): Promise<boolean> {
    const inVain = (error: unknown): false => {
      if (!isHeldUp(error)) throw error
      this.#say(`in vain: ${error.message}`)
      return false
    }
    return work.then(() => true, inVain)
  }

  #wake(): void {
    for (const { wake } of this.#living) if (this.#chance.happens(0.8)) wake()
  }

  async #write(shop: Shop): Promise<void> {
    const mine = [...this.#events.values()].filter((event) => event.shop === shop)
    const isNew = mine.length === 0 || this.#chance.happens(0.3)
    const message = isNew ? this.#nextId() : this.#chance.of(mine).message
    const sequence = mine.filter((event) => event.message === message).length + 1
    const type = this.#chance.of(['message.sending', 'message.sent'])
    const isWritten = await this.#unlessHeld(
      this.#db.run(
        `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
         values ($1, $2, $3, $4, 'sending', 0, app_now())`,
        [shop.workspaceId, message, sequence, type],
      ),
    )
    if (!isWritten) return
    const event: EventOf = { shop, message, sequence, putAt: this.#step, replays: 0, claims: [], posts: 0, taken: 0 }
    this.#events.set(eventId(message as MessageId, sequence), event)
    this.#say(`event: ${nameOf(event)} ${type}`)
    this.#wake()
  }

  /** One after the other, whatever the seed of ids is. */
  #nextId(): string {
    const at = (startedAt + ++this.#messages).toString(16).padStart(12, '0')
    return `${at.slice(0, 8)}-${at.slice(8)}-7000-8000-${this.#messages.toString(16).padStart(12, '0')}`
  }

  async #noteReplays(shop: Shop): Promise<void> {
    const rows = await this.#own.run<{ message_id: string; sequence: number; round: number }>(
      'select message_id, sequence, round from webhook_queue where workspace_id = $1',
      [shop.workspaceId],
    )
    for (const { message_id: message, sequence, round } of rows) {
      const event = this.#events.get(eventId(message as MessageId, sequence))
      // What came while its endpoint did not want it has no round before.
      if (event === undefined || (round - 1 <= event.replays && event.claims.length > 0)) continue
      event.replays = round - 1
      event.putAt = this.#step
    }
  }

  async #kill(): Promise<void> {
    const node = this.#chance.of(this.#nodes)
    if (node.isDead) return
    this.#say(`killed: ${node.name}`)
    node.isDead = true
    const others = this.#questions.filter((each) => each.node !== node)
    this.#questions.splice(0, this.#questions.length, ...others)
    for (const request of this.#requests.filter((each) => each.node === node)) request.end({ trouble: 'closed' })
    for (const one of this.#opens.filter((each) => each.question.node === node)) {
      this.#opens.splice(this.#opens.indexOf(one), 1)
      if (await one.end(this.#chance.happens(0.5) ? 'commit' : 'rollback'))
        await this.#committed(one.question, one.rows, false, one.executed)
    }
  }

  #stop(): Promise<void> {
    const node = this.#chance.of(this.#nodes)
    if (node.isDead || node.isStopping) return Promise.resolve()
    this.#say(`stops: ${node.name}`)
    node.isStopping = true
    void node.sender.stop().then(() => {
      this.#say(`stopped: ${node.name}`)
      node.isDead = true
    })
    return Promise.resolve()
  }

  #ofHolders(shop: Shop): Choice[] {
    const someRows = () => {
      const table = this.#chance.of(['webhook_queue', 'webhook_endpoints'])
      const text = `select from ${table} where workspace_id = $1 limit 2 for update skip locked`
      return this.#hold(`${table} ${shop.name}`, text, [shop.workspaceId])
    }
    const wholeTable = () => {
      const table = this.#chance.of(['events', 'webhook_queue', 'webhook_endpoints', 'webhook_attempts'])
      return this.#hold(table, `lock table ${table} in exclusive mode`)
    }
    return [
      { weight: 0.1, act: someRows },
      // Not before who has something open writes no more: it would be waited for.
      { weight: this.#options.wholeTables && this.#opens.length === 0 ? 0.5 : 0, act: wholeTable },
    ]
  }
  async #hold(what: string, text: string, values: readonly unknown[] = []): Promise<void> {
    const held = Promise.withResolvers<undefined>()
    const ending = Promise.withResolvers<undefined>()
    this.#say(`held: ${what}`)
    const over = this.#own
      .transaction(async (tx) => {
        await tx.run(text, values)
        held.resolve(undefined)
        await ending.promise
      })
      .catch((error: unknown) => held.reject(error))
    await held.promise
    this.#free = async () => {
      this.#free = undefined
      this.#say('free:')
      ending.resolve(undefined)
      await over
    }
  }

  // --- the end

  async #calm(): Promise<void> {
    this.#isCalm = true
    this.#say('calm:')
    await this.#free?.()
    // Who waits for a lock of these waits by a timer, and time stands still until then.
    while (this.#opens.length > 0) await this.#next()
    for (const { workspaceId, removedAt } of this.#shops)
      if (removedAt === Infinity) await this.#deskOver(this.#own).enable(workspaceId, 'operator:test')
      else await carryOnRemoval(this.#own, workspaceId, 'operator:test')
    while (this.#living.filter(({ isStopping }) => !isStopping).length === 0) await this.#newNode()
    for (let more = 0; more < 1_500; more++) {
      await this.#next()
      const isQuiet = this.#questions.length + this.#requests.length + this.#opens.length === 0
      if (isQuiet && this.#living.every(({ sender }) => sender.inFlight === 0) && (await this.#waiting()) === 0) return
    }
    const rows = await this.#own.run('select q.*, app_now() from webhook_queue q')
    this.#breach(`no rest: ${JSON.stringify([rows, this.#living.map(({ name, sender }) => [name, sender.inFlight])])}`)
  }
  async #waiting(): Promise<number> {
    return (await this.#own.run('select from webhook_queue')).length
  }

  async #lookAtTheEnd(): Promise<void> {
    type Attempt = { round: number; attempt: number; delivered: boolean; trouble: string | null }
    for (const event of this.#events.values()) {
      const { shop, message, sequence, claims } = event
      if (shop.removedAt < Infinity || claims.length === 0) continue
      const log = await this.#own.run<Attempt>(
        `select round, attempt, delivered, trouble from webhook_attempts
          where workspace_id = $1 and message_id = $2 and sequence = $3 order by round, attempt`,
        [shop.workspaceId, message, sequence],
      )
      const what = nameOf(event)
      const delivered = log.filter((each) => each.delivered).length
      if (delivered > event.taken) this.#breach(`${what} was delivered ${delivered} times, and taken ${event.taken}`)
      if (event.posts > 8 * (1 + event.replays)) this.#breach(`${what} was posted ${event.posts} times`)
      const last = log.at(-1)
      if (last?.delivered !== true && last?.attempt !== 8 && !shop.wasDisabled)
        this.#breach(`${what} is at its end, and is neither taken nor tried eight times: ${JSON.stringify(log)}`)
      for (const { round, attempt, trouble } of log) {
        const of = claims.filter((each) => each.round === round && each.attempts === attempt)
        const isExcused = ({ node, posted, at }: Claimed) =>
          posted || node.isDead || this.#leaps.some((leap) => leap >= at && leap <= at + 2 * leaseMs)
        if (trouble === 'worker_lost' && !of.some(isExcused) && this.#clockSteps === 0)
          this.#breach(`${what} lost the try ${round}.${attempt}, which nobody made`)
      }
    }
    const states = await this.#own.run<{ state: string; failing_since: Date | null }>(
      'select state, failing_since from webhook_endpoints where workspace_id = any ($1::uuid[])',
      [this.#shops.map(({ workspaceId }) => workspaceId)],
    )
    for (const { state } of states) if (state !== 'active') this.#breach(`an endpoint is ${state} although it is well`)
  }
}

interface Choice {
  readonly weight: number
  act(): Promise<void>
}

interface Result {
  readonly m: string
  readonly s: number
  readonly w: string
  readonly claim: string
  readonly attempt: number
  readonly status?: number
  readonly delivered: boolean
}

/** Whose endpoint a result has disabled; null where it says that there is more to claim. */
interface DisabledRow {
  readonly workspace_id: string | null
  readonly reason: string | null
}

interface ClaimRow {
  readonly lanes: number | null
  readonly message_id: string
  readonly sequence: number
  readonly round: number
  readonly attempts: number
}

const nameOf = ({ shop, message, sequence }: EventOf): string => `${shop.name}/${message.slice(-4)}.${sequence}`

const never = (): never => {
  throw new Error('a sender asks by statements alone')
}
