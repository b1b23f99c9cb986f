// The simulation's model of the queue against PostgreSQL: the same random operations, asked through the same real functions of store/, must give the
// same answers and leave the same rows, whatever came before. So what the simulation shows about the protocol holds for the database's
// functions too.
import { afterAll, expect, test } from 'vitest'
import type { Db } from '../../src/store/database.ts'
import type { MessageId, WorkspaceId } from '../../src/domain/message.ts'
import { claimDue } from '../../src/store/claim.ts'
import { assumeSentSince, checkInNode, liftFence, replayEndings, setDrain } from '../../src/store/fence.ts'
import {
  extendLeases,
  extendLocked,
  hastenPutOff,
  makeRecorder,
  reap,
  type Armable,
  type Ending,
  type Mark,
  type Recorder,
} from '../../src/store/outbound.ts'
import { expireSome } from '../../src/store/expire.ts'
import { cancelWaiting } from '../../src/store/removal.ts'
import { storeWorld, type Sender } from '../../src/store/store.test-kit.ts'
import { leastId } from '../../src/store/message-id.ts'
import { chance, type Chance } from '../world/random.ts'
import { ModelDatabase } from './model-database.ts'

const triesMax = 4
const leaseMs = 2_000
const startsAt = Date.parse('2026-11-21T10:00:00Z')
const world = await storeWorld()
await world.db.run('create table test_clock (at timestamptz not null)')
await world.db.run('insert into test_clock values (now())')
await world.db.run(
  'create or replace function app_now() returns timestamptz language sql stable as $$ select at from test_clock $$',
)
afterAll(() => world.close())

/** One of the two, behind the real functions. */
interface Side {
  readonly db: Db
  readonly recorder: Recorder
  readonly mark: { node: string; counter: number }
  admit(id: MessageId, recipient: string, ageMs: number): Promise<void>
  suppress(recipient: string): Promise<void>
  /** All that waits. */
  cancel(): Promise<number>
  expire(): Promise<readonly string[]>
  clearStops(): Promise<void>
  dump(): Promise<object>
}

function sideOf(db: Db, node: string, rest: Omit<Side, 'db' | 'recorder' | 'mark'>): Side {
  const mark: Mark & { counter: number } = {
    node,
    counter: 0,
    keep: (counter) => {
      mark.counter = Math.max(mark.counter, counter)
      return Promise.resolve()
    },
  }
  return { db, recorder: makeRecorder(db, db, mark), mark, ...rest }
}

function modelSide(node: string, clock: { now: number }): { side: Side; model: ModelDatabase } {
  const model = new ModelDatabase({ now: () => clock.now, token: () => '', isVouchedFor: () => false, sender: {} })
  model.counters.set(node, 0)
  const side = sideOf(model.db(), node, {
    admit: (id, recipient, ageMs) => Promise.resolve(model.admit(id, recipient, ageMs)),
    suppress: (recipient) => Promise.resolve(void model.suppressed.add(recipient)),
    cancel: async () =>
      Number((await model.db().rows<{ many: number }>({ name: 'cancel-waiting', text: '' }))[0]?.many),
    expire: async () => {
      const ids = [...model.outbound.keys()]
      return (await model.db().rows<{ id: string }>({ name: 'expire', text: '' }, [ids])).map(({ id }) => id).sort()
    },
    clearStops: () => {
      model.stops.clear()
      model.orphans.clear()
      return Promise.resolve()
    },
    dump: () =>
      Promise.resolve({
        outbound: [...model.outbound.values()]
          .sort(byId)
          .map((row) => ({ ...row, leaseOwner: undefined, token: row.status === 'sending' ? row.token : null })),
        messages: [...model.messages.values()]
          .sort(byId)
          .map(({ id, status, sequence, armedEpoch, armedToken, events, attempts }) => ({
            id,
            status,
            sequence,
            armedEpoch,
            armedToken,
            events: events.map((event) => `${event.sequence} ${event.type} ${event.reason}`),
            attempts: [...attempts]
              .sort(([one], [other]) => one - other)
              .map(([epoch, outcome]) => `${epoch} ${outcome}`),
          })),
        stops: [...model.stops].map(([kind, { reason }]) => `${kind} ${reason}`).sort(),
        suppressed: [...model.suppressed].sort(),
        counters: [...model.counters]
          .map(([id, counter]) => [id, counter, model.eras.get(id) ?? []].flat().join(' '))
          .sort(),
      }),
  })
  return { side, model }
}

const byId = (one: { readonly id: string }, other: { readonly id: string }) => (one.id < other.id ? -1 : 1)

async function realSide(node: string, { workspaceId, mailboxId }: Sender): Promise<Side> {
  const { db } = world
  await db.run('delete from outbound') // what the seed before left
  await db.run('delete from delivering_nodes')
  await db.run('delete from delivery_stops')
  await db.run('delete from orphaned_replies')
  await db.run(`delete from installation where name in ('era', 'era_seen')`)
  await db.run(`insert into delivering_nodes (id, name) values ($1, 'node.test')`, [node])
  const ms = (column: string) => `round(extract(epoch from ${column}) * 1000)::float8`
  return sideOf(db, node, {
    admit: async (id, recipient, ageMs) => {
      await db.run(
        `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
         values ($1, $2, $3, 'rest', 'queued', 1, 'post@shop.example', $4, $4, 'Hello', 'node.test', app_now())`,
        [workspaceId, id, mailboxId, recipient],
      )
      await db.run(
        `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
         values ($1, $2, 1, 'message.queued', 'queued', 0, app_now())`,
        [workspaceId, id],
      )
      await db.run('insert into contents (workspace_id, message_id, body_text) values ($1, $2, $$Good morning$$)', [
        workspaceId,
        id,
      ])
      await db.run(
        `insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
         values ($1, $2, $3, split_part($4, '@', 2), app_now(), app_now() + $5 * interval '1 millisecond')`,
        [id, workspaceId, mailboxId, recipient, ageMs],
      )
    },
    suppress: async (recipient) => {
      await db.run(
        `insert into suppressions (workspace_id, recipient_key, recipient, reason) values ($1, $2, $2, 'manual') on conflict do nothing`,
        [workspaceId, recipient],
      )
    },
    cancel: async () => {
      await db.run(`update workspaces set status = 'blocked' where id = $1`, [workspaceId])
      const many = await cancelWaiting(db, workspaceId)
      await db.run(`update workspaces set status = 'active' where id = $1`, [workspaceId])
      return many
    },
    expire: async () => [...(await expireSome(db, 0)).expired].sort(),
    clearStops: async () => {
      await db.run('delete from delivery_stops')
      await db.run('delete from orphaned_replies')
    },
    dump: async () => ({
      outbound: await db.run(
        `select message_id id, destination, status, ${ms('due_at')} "dueAt", ${ms('expires_at')} "expiresAt", epoch,
                case when status = 'sending' then token::text end token, ${ms('lease_until')} "leaseUntil", armed_epoch "armedEpoch", attempts, evidence
           from outbound where workspace_id = $1 order by message_id`,
        [workspaceId],
      ),
      messages: await db.run(
        `select id, status, sequence, armed_epoch "armedEpoch", armed_token::text "armedToken",
                array(select concat_ws(' ', e.sequence, e.type, coalesce(e.facts ->> 'reason', 'null')) from events e
                       where e.workspace_id = m.workspace_id and e.message_id = m.id order by e.sequence) events,
                array(select concat_ws(' ', a.epoch, a.outcome) from attempts a
                       where a.workspace_id = m.workspace_id and a.message_id = m.id order by a.epoch) attempts
           from messages m where workspace_id = $1 order by id`,
        [workspaceId],
      ),
      stops: (
        await db.run<{ stop: string }>(`select concat_ws(' ', kind, reason) stop from delivery_stops order by 1`)
      ).map(({ stop }) => stop),
      suppressed: (
        await db.run<{ recipient: string }>(
          'select recipient_key recipient from suppressions where workspace_id = $1 order by 1',
          [workspaceId],
        )
      ).map(({ recipient }) => recipient),
      counters: (
        await db.run<{ counter: string }>(
          `select concat_ws(' ', id, counter, era) counter from delivering_nodes order by 1`,
        )
      ).map(({ counter }) => counter),
    }),
  })
}

/** What somebody answered: a value, or that it was refused. */
const answerOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    (answer) =>
      answer instanceof Set ? [...(answer as Set<string>)].sort((one, other) => (one < other ? -1 : 1)) : answer,
    (error: unknown) => `refused ${String((error as { code?: unknown }).code)}`,
  )

function endingFor(claim: Armable, workspaceId: WorkspaceId, dice: Chance): Ending {
  const status = dice.of(['sent', 'failed', 'retrying', 'retrying', 'delivery_unknown'] as const)
  // No attempt ends unknown with evidence.
  const evidence = status === 'delivery_unknown' ? undefined : dice.of([undefined, 'eod_4xx', 'not_written'] as const)
  const reports = dice.happens(0.3)
  const deferrals = dice.happens(0.2) ? 1 + dice.below(2) : 0
  // Mostly what belongs together.
  const own = evidence === 'eod_4xx' ? 450 : status === 'sent' ? 250 : 550
  const code = dice.happens(0.8) ? own : dice.of([250, 354, 450, 550])
  return {
    ...claim,
    workspaceId,
    status,
    delayMs: dice.below(3_000),
    ...(evidence !== undefined && { evidence }),
    usesTry: dice.happens(0.8),
    outcome: `as ${status}`,
    attempt: {
      phase: dice.happens(0.9) ? 'eod' : 'content',
      ...(dice.happens(0.1) && { trouble: 'closed' }),
      ...(dice.happens(0.9) && { smtp: { code } }),
    },
    event: { reason: `because ${dice.below(100)}` },
    ...(reports && {
      report: {
        type: 'hard_bounce',
        rank: 3,
        detail: '550',
        bounce: { rule: 'x' },
        suppress: dice.happens(0.3),
        facts: {},
      },
    }),
    ...(deferrals > 0 && {
      deferredBy: Array.from({ length: deferrals }, () => ({ detail: '451', bounce: {}, report: {} })),
    }),
  }
}

const domains = ['a.example', 'b.example', 'c.example'] as const

test.each([1, 2, 3, 4])(
  'random operations on the model and on PostgreSQL answer and leave the same (seed %i)',
  async (seed) => {
    const dice = chance(seed)
    const clock = { now: startsAt + seed * 86_400_000 }
    const sender = await world.sender()
    const node = world.nextId() as string
    const newcomer = world.nextId() as string
    const { side: ours, model } = modelSide(node, clock)
    const real = await realSide(node, sender)
    const claims: Armable[] = []
    const counts = new Map<string, number>()
    const log: string[] = []

    const both = (ask: (side: Side) => Promise<unknown>) => Promise.all([answerOf(ask(real)), answerOf(ask(ours))])
    const same = async (name: string, ask: (side: Side) => Promise<unknown>): Promise<void> => {
      const [fromReal, fromModel] = await both(ask)
      log.push(`${name}: ${JSON.stringify(fromReal)}`)
      expect(fromModel, log.slice(-12).join('\n')).toEqual(fromReal)
    }
    const some = (most: number) => {
      // Of late claims more than of old ones; never the same twice.
      const recent = claims.slice(-12)
      return [
        ...new Set(Array.from({ length: 1 + dice.below(most) }, () => dice.of(dice.happens(0.8) ? recent : claims))),
      ]
    }
    const operations = [
      {
        weight: 8,
        name: 'admit',
        run: async () => {
          const id = world.nextId()
          const recipient = `r${claims.length}-${dice.below(1_000)}@${dice.of(domains)}`
          const ageMs = dice.happens(0.1) ? 3_000 : 86_400_000
          await both((side) => side.admit(id, recipient, ageMs))
        },
      },
      {
        weight: 8,
        name: 'claim',
        run: async () => {
          const rooms = claims.length > 0 && dice.happens(0.2) ? { [dice.of(domains)]: 0 } : {}
          const request = {
            cursor: leastId,
            cursors: {},
            most: 100,
            rooms,
            roomElse: 100,
            crowded: [],
            leaseMs,
            owner: node,
            ...(dice.happens(0.2) && { since: new Date(clock.now - dice.below(10_000)) }),
          }
          const [fromReal, fromModel] = await Promise.all([claimDue(real.db, request), claimDue(ours.db, request)])
          const told = ({ claimed, refused, oldest, now }: typeof fromReal) => ({
            oldest,
            now,
            claimed: [...claimed]
              .sort(byId)
              .map(({ id, epoch, attempt, recipient, destination, expiresAt, claimedAt }) => ({
                id,
                epoch,
                attempt,
                recipient,
                destination,
                expiresAt,
                claimedAt,
              })),
            refused: [...refused].sort(byId).map(({ id, reason }) => ({ id, reason })),
          })
          expect(told(fromModel)).toEqual(told(fromReal))
          // A token is chance: the model takes over the real one.
          for (const { id, epoch, token, recipientKey } of fromReal.claimed) {
            const row = model.outbound.get(id)
            if (row !== undefined) row.token = token
            claims.push({ id, epoch, token, recipientKey })
          }
        },
      },
      {
        weight: 2,
        name: 'heartbeat',
        run: () => {
          const these = some(4)
          const extend = dice.happens(0.5) ? extendLeases : extendLocked
          return same('heartbeat', (side) => extend(side.db, these, leaseMs))
        },
      },
      {
        weight: 6,
        name: 'arm',
        run: () => {
          const these = some(4)
          return same('arm', (side) => Promise.all(these.map((claim) => side.recorder.arm(claim))))
        },
      },
      {
        weight: 6,
        name: 'finish',
        run: () => {
          const endings = some(3).map((claim) => endingFor(claim, sender.workspaceId, dice))
          return same('finish', (side) => Promise.all(endings.map((ending) => answerOf(side.recorder.finish(ending)))))
        },
      },
      {
        weight: 2,
        name: 'hasten',
        run: () => {
          const these = some(4)
          return same('hasten', async (side) => [...(await hastenPutOff(side.db, these))].sort())
        },
      },
      {
        weight: 4,
        name: 'reap',
        run: () => {
          const armedToo = dice.happens(0.7)
          return same('reap', async (side) => (await reap(side.db, triesMax, { armedToo })).sort(byId))
        },
      },
      {
        weight: 2,
        name: 'replay',
        run: () => {
          const endings = some(2).map((claim) => endingFor(claim, sender.workspaceId, dice))
          const ofOne = new Set(endings.map(({ id }) => id)).size === endings.length ? endings : endings.slice(0, 1)
          return same('replay', (side) => replayEndings(side.db.rows, ofOne))
        },
      },
      {
        weight: 1,
        name: 'suppress',
        run: async () => {
          const recipient = dice.of([...model.messages.values()]).recipient
          await both((side) => side.suppress(recipient))
        },
      },
      {
        weight: 2,
        name: 'fail what waits',
        run: () =>
          dice.happens(0.8) ? same('expire', (side) => side.expire()) : same('cancel', (side) => side.cancel()),
      },
      {
        weight: 6,
        name: 'time',
        run: async () => {
          clock.now += dice.happens(0.3) ? leaseMs + dice.below(2_000) : dice.below(800)
          await world.db.run('update test_clock set at = $1', [new Date(clock.now)])
        },
      },
      {
        weight: 1,
        name: 'drain',
        run: async () => {
          await both((side) => setDrain(side.db, true))
          await same('arm', (side) => side.recorder.arm(claims.at(-1) as Armable))
          await both((side) => setDrain(side.db, false))
        },
      },
      {
        weight: 1,
        name: 'check-in',
        run: () => {
          if (dice.happens(0.4))
            return same('check-in', (side) => checkInNode(side.db.rows, newcomer, 'new.test', undefined))
          const counter = ours.mark.counter + (dice.happens(0.3) ? 1 : 0)
          return same('check-in', (side) => checkInNode(side.db.rows, node, 'node.test', { counter, era: 0 }))
        },
      },
      {
        weight: 1,
        name: 'recover',
        run: async () => {
          if (dice.happens(0.7)) {
            const since = new Date(clock.now - dice.below(10_000))
            await same('assume sent', (side) => assumeSentSince(side.db, since))
          }
          await same('lift', (side) => liftFence(side.db))
          // A time: the model takes over the real one.
          model.era = await world.value<number>(`select value::float8 from installation where name = 'era'`)
        },
      },
      {
        weight: 1,
        name: 'behind',
        run: async () => {
          // The node knows of an arm that the database does not.
          ours.mark.counter = real.mark.counter += dice.below(2)
          await same('arm', (side) => side.recorder.arm(claims.at(-1) as Armable))
        },
      },
    ] as const

    await world.db.run('update test_clock set at = $1', [new Date(clock.now)])
    await operations[0].run()
    await operations[1].run()
    for (let n = 0; n < 240; n++) {
      const { name, run } = dice.weighted(operations)
      counts.set(name, (counts.get(name) ?? 0) + 1)
      await run()
      const [fromReal, fromModel] = await Promise.all([real.dump(), ours.dump()])
      expect(JSON.parse(JSON.stringify(fromModel)), `after ${name}\n${log.slice(-12).join('\n')}`).toEqual(
        JSON.parse(JSON.stringify(fromReal)),
      )
      // A fence stops everything: an operator lifts it, or nothing more would happen.
      if (model.stops.size > 0 && dice.happens(0.8)) {
        await both((side) => side.clearStops())
        const counter = Math.max(ours.mark.counter, model.counters.get(node) ?? 0)
        model.counters.set(node, counter)
        await world.db.run('update delivering_nodes set counter = $1 where id = $2', [counter, node])
      }
    }
    expect(counts.size).toBe(operations.length)
    expect(claims.length).toBeGreaterThan(15)
  },
)
