// The delivery loop against a real database and real sockets: who gets a turn, what is handed back, what is renounced, and that a dot is
// written once at most, whatever happens to the database or the service meanwhile. What waits for a lease to end is in leases.test.ts.
import type { Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { startReceiver } from '../../test/world/receiver-process.ts'
import { limits, parseRoute } from '../config.ts'
import { survivesItsLife } from '../base/service.test-kit.ts'
import type { MessageId } from '../domain/message.ts'
import { stageBlob } from '../store/blobs.ts'
import { setDestinationLimits } from '../store/destinations.ts'
import { liftFence, readStops } from '../store/fence.ts'
import { makeRecorder } from '../store/outbound.ts'
import type { Sender } from '../store/store.test-kit.ts'
import { watched } from '../store/watched.test-kit.ts'
import type { DeliverTools } from './deliver.ts'
import { calm, deliverWorld, leaseMs, ownRelay, relay, vault } from './deliver.test-kit.ts'
import { memoryJournal, openGate } from './fence.test-kit.ts'
import { makeMark } from './mark.ts'
import { silence } from './peer.test-kit.ts'

const receiver = await startReceiver()
const at = await deliverWorld(receiver)
const {
  world,
  lines,
  faults,
  pool,
  toReceiver,
  started,
  deliver,
  peerOf,
  peerThatHolds,
  senderOf,
  submit,
  one,
  withFile,
  statusOf,
  eventually,
  becomes,
  comesTo,
  reaches,
  arrived,
  types,
  facts,
  queueRow,
  holding,
  receipts,
  waitsFor,
  endWhoWaitsFor,
} = at

afterEach(async () => {
  vi.useRealTimers()
  await at.clear()
})
afterAll(async () => {
  await receiver.stop()
  await at.close()
})

describe('a message', () => {
  test('is claimed, armed, sent and recorded', async () => {
    const sender = await senderOf()
    await started({ timeScale: 1 })
    const first = await one(sender, 'ok')
    await becomes(first, 'sent')
    expect(await types(first)).toEqual(['queued', 'sending', 'sent'])
    expect(await queueRow(first)).toBeUndefined()
    expect(await receipts(first)).toBe(1)
    expect(lines).toMatchObject([
      { what: 'attempted', facts: { messageId: first, outcome: 'accepted', phase: 'eod', code: 250 } },
    ])
  })

  test('wakes an idle loop, which would look by itself only after a second', async () => {
    const sender = await senderOf()
    await started({ timeScale: 1 })
    const took: number[] = []
    for (let turn = 0; turn < 5; turn++) {
      const began = performance.now()
      await becomes(await one(sender, 'ok'), 'sent')
      took.push(performance.now() - began)
    }
    // The first may come just before a look; each of the others begins with the pause behind the look that found the one before.
    expect(Math.min(...took.slice(1))).toBeLessThan(500)
  })

  test('that may not be sent any more never sees a connection, and its neighbours do', async () => {
    const [sender, blocked, disabled] = [await senderOf(), await senderOf(), await senderOf()]
    const expired = await one(sender, 'ok', { expires: new Date(Date.now() - 1_000) })
    const suppressed = await one(sender, 'ok', { recipient: 'no@example.org', recipient_key: 'no@example.org' })
    await world.db.run(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason) values ($1, 'no@example.org', 'no@example.org', 'manual')`,
      [sender.workspaceId],
    )
    const lost = await one(sender, 'ok')
    await world.db.run('delete from contents where message_id = $1', [lost])
    const ofBlocked = await one(blocked, 'ok')
    await world.db.run(`update workspaces set status = 'blocked' where id = $1`, [blocked.workspaceId])
    const ofDisabled = await one(disabled, 'ok')
    await world.db.run(`update mailboxes set status = 'disabled' where id = $1`, [disabled.mailboxId])
    const fine = await one(sender, 'ok')
    await started()
    await becomes(fine, 'sent')
    for (const [id, reason] of [
      [expired, 'expired'],
      [suppressed, 'recipient_suppressed'],
      [lost, 'content_lost'],
      [ofBlocked, 'workspace_blocked'],
      [ofDisabled, 'mailbox_not_active'],
    ] as const) {
      await becomes(id, 'failed')
      expect(await types(id)).toEqual(['queued', 'failed'])
      expect(await facts(id)).toMatchObject({ reason, errorMessage: expect.stringMatching(/^The .+\.$/) })
      expect(await receipts(id)).toBe(0)
    }
  })

  test.each([
    ['expired', 'update outbound set expires_at = app_now() where workspace_id = $1'],
    ['workspace_blocked', `update workspaces set status = 'blocked' where id = $1`],
    ['mailbox_not_active', `update mailboxes set status = 'disabled' where workspace_id = $1`],
    ['mailbox_not_active', `update domains set status = 'failed' where workspace_id = $1`],
  ])('that may not be sent any more, though it could when it was claimed, gets no dot: %s', async (reason, happens) => {
    const sender = await senderOf()
    const peer = await peerOf({
      DATA: (socket) => void world.db.run(happens, [sender.workspaceId]).then(() => socket.write('354 go on\r\n')),
    })
    const id = await one(sender, 'ok')
    await started({ route: relay(peer) })
    await becomes(id, 'failed')
    expect(await types(id)).toEqual(['queued', 'sending', 'failed'])
    expect(await facts(id)).toMatchObject({ reason, errorMessage: expect.stringMatching(/^The .+\.( \(.+\))?$/) })
    expect([peer.heard.filter((line) => line === 'DATA').length, peer.dots, faults()]).toEqual([1, 0, []])
  })

  test('is tried again after each temporary refusal, and then accepted once', async () => {
    const id = await one(await senderOf(), 'deferred-2')
    await started()
    await becomes(id, 'sent')
    expect(await types(id)).toEqual(['queued', 'sending', 'retrying', 'sending', 'retrying', 'sending', 'sent'])
    expect(await receipts(id)).toBe(1)
  })

  test('fails when its ten tries are used up, each with the proof that it was not accepted', async () => {
    const id = await one(await senderOf(), 'eod-451')
    await started()
    await becomes(id, 'failed')
    expect(await receipts(id)).toBe(10)
    expect((await types(id)).filter((type) => type === 'retrying')).toHaveLength(9)
    expect(await facts(id)).toMatchObject({
      reason: 'tries_used_up',
      errorMessage: expect.stringContaining('451 4.3.0 not now'),
    })
  })

  test('is tried as often as the schedule of the installation has waits, and once more', async () => {
    const id = await one(await senderOf(), 'eod-451')
    await started({ retrySchedule: [60, 300] })
    await becomes(id, 'failed')
    expect(await receipts(id)).toBe(3)
    expect(await facts(id)).toMatchObject({ reason: 'tries_used_up' })
  })

  test('past the dot without a reply is unknown, and nobody transmits it again', async () => {
    const id = await one(await senderOf(), 'close-after-dot')
    const service = await started()
    await becomes(id, 'delivery_unknown')
    const next = await one(await senderOf(), 'ok')
    await becomes(next, 'sent')
    await service.stop()
    expect(await receipts(id)).toBe(1)
    expect(await facts(id)).toMatchObject({ reason: 'eod_closed' })
  })

  test('gives the room for its content back, so that the next large one has it', async () => {
    await started()
    const sender = await senderOf()
    for (let n = 0; n < 3; n++) {
      const blob = world.nextId()
      const size = limits.contentOfWorkspaceBytesMax // as large as all that a workspace may hold
      const files = [{ position: 0, filename: 'a.bin', content_type: 'application/octet-stream', size, blob }]
      await becomes(await one(sender, 'ok', { files, chunks: [{ blob, bytes: 'YQ==' }] }), 'sent')
    }
  })

  test('with large attachments waits while the machine has no memory left for it, small mail with a file goes on beside it, and it costs no try', async () => {
    let memory = limits.mailWithoutMemoryBytes
    const sender = await senderOf()
    const large = [
      await withFile(sender, limits.mailWithoutMemoryBytes + 1),
      await withFile(sender, 2 * limits.mailWithoutMemoryBytes),
    ]
    await started({ ...calm, memoryNow: () => memory })
    for (const size of [limits.largeRequestBytes, limits.largeRequestBytes])
      await becomes(await withFile(sender, size), 'sent')
    expect(await Promise.all(large.map(statusOf))).toEqual(['sending', 'sending'])
    memory *= 4
    for (const id of large) await becomes(id, 'sent')
    const attempts = await world.db.run('select message_id from attempts where message_id = any ($1)', [large])
    expect(attempts).toHaveLength(2)
  })

  test('with large attachments goes alone where no memory is left for long, and the operator is told; what comes back to this machine as the sandbox counts for more', async () => {
    const sender = await senderOf()
    const large = [
      await withFile(sender, limits.mailWithoutMemoryBytes + 1),
      await withFile(sender, limits.mailWithoutMemoryBytes + 1),
    ]
    await started({ memoryNow: () => limits.mailWithoutMemoryBytes })
    for (const id of large) await becomes(id, 'sent')
    expect(faults()).toContain('large mail')
    lines.length = 0
    const part = Math.ceil(limits.mailWithoutMemoryBytes / 2)
    await becomes(await withFile(sender, part), 'sent')
    expect(faults()).toEqual([])
    await becomes(await withFile(sender, part, { destination: 'simulator.posthorn.test' }), 'sent')
    expect(faults()).toContain('large mail')
  })

  test('with attachments is not held up by those for hosts that say nothing: their content gives way, without a try', async () => {
    const stalled = await peerOf({ greeting: silence })
    const crowds = [await senderOf(ownRelay(stalled)), await senderOf(ownRelay(stalled))]
    const large = limits.contentInFlightBytesMax / 2
    const silent = [
      await withFile(crowds[0] as Sender, large, { destination: 'stalled0.example' }),
      await withFile(crowds[1] as Sender, large, { destination: 'stalled1.example' }),
    ]
    await started()
    await reaches(() => stalled.connections, 2)
    const other = await senderOf()
    for (const id of [await withFile(other, large), await withFile(other, 100_000)]) await becomes(id, 'sent')
    const left = await world.db.run<{ attempts: number }>('select attempts from outbound where message_id = any ($1)', [
      silent,
    ])
    expect(left.map(({ attempts }) => attempts <= 1)).toEqual([true, true])
    expect(stalled.dots).toBe(0)
  })

  test('with attachments is not held up by one that waits for the reply to its dot: that one has given its room back, and stays', async () => {
    const atDot = await peerOf({ dot: silence })
    const sender = await senderOf(ownRelay(atDot))
    const whole = limits.contentOfWorkspaceBytesMax // all that a workspace may hold
    const stays: MessageId[] = []
    await started()
    for (const many of [1, 2, 3]) {
      stays.push(await withFile(sender, whole))
      await comesTo(() => atDot.dots, many)
    }
    for (const id of stays) expect(await types(id)).toEqual(['queued', 'sending'])
    // A stop would wait for the replies.
    for (const socket of atDot.sockets) socket.destroy()
  })

  // The room would mean nothing if what it stands for stayed in memory.
  test.each([
    ['as it is', '250 mx.posthorn.test\r\n', 'text'],
    ['in 7 bits', '250 mx.posthorn.test\r\n', 'smtp'],
  ])(
    'whose content goes %s holds it no longer than until the dot: the reply may be ten minutes away',
    async (_, EHLO, kind) => {
      const atDot = await peerOf({ dot: silence, EHLO })
      const sender = await senderOf(ownRelay(atDot))
      const size = 1_500_000
      const mail = Buffer.from(`Subject: x\r\n\r\n${'Grüße, immer wieder Grüße\r\n'.repeat(size / 30)}`)
      const bytes = kind === 'smtp' ? mail : Buffer.alloc(size)
      const send = () => {
        const blob = world.nextId()
        const files = [
          { position: 0, filename: 'a.bin', content_type: 'application/octet-stream', size: bytes.length, blob },
        ]
        const chunks = [{ blob, bytes: bytes.toString('base64') }]
        return one(sender, 'ok', { files, chunks, ...(kind === 'smtp' && { source: 'smtp' }) })
      }
      await started()
      await send()
      await comesTo(() => atDot.dots, 1)
      setFlagsFromString('--expose-gc')
      const collect = runInNewContext('gc') as () => void
      const held = () => {
        collect()
        return process.memoryUsage().arrayBuffers
      }
      const before = held()
      for (const many of [2, 3, 4, 5]) {
        await send()
        await comesTo(() => atDot.dots, many)
      }
      await eventually(held, (now) => now < before + size)
      for (const socket of atDot.sockets) socket.destroy()
    },
  )

  test('for a host that greets late gets through beside more that are silent than may be in flight', async () => {
    let besideIt = 0
    const slowly = (text: string) => (socket: Socket) =>
      void globalThis.setTimeout(() => {
        besideIt = service.inFlight
        socket.write(text)
      }, 2 * limits.stalledAfterMs)
    const [silent, slow] = [
      await peerOf({ greeting: silence }),
      await peerOf({ greeting: slowly('220 slow.test\r\n') }),
    ]
    const service = await started({ timeScale: 1 })
    const toSilent = async (n: number) =>
      one(await senderOf(ownRelay(silent)), 'ok', { destination: `silent${n}.example` })
    for (let first = 0; first <= limits.stalledSlotsMax; first += 50)
      await Promise.all(Array.from({ length: 50 }, (_, n) => toSilent(first + n)))
    const id = await one(await senderOf(ownRelay(slow)), 'ok')
    await becomes(id, 'sent')
    expect(await types(id)).toEqual(['queued', 'sending', 'sent'])
    // Not counted by now: on a slow machine those that have waited for 15 seconds have made way, for it as well.
    expect(besideIt).toBeGreaterThanOrEqual(limits.stalledSlotsMax - 1)
  })

  test('goes over its workspace’s own route', async () => {
    const peer = await peerOf()
    const sender = await senderOf(ownRelay(peer))
    const id = await one(sender, 'ok')
    await started()
    await becomes(id, 'sent')
    expect([peer.dots, await receipts(id)]).toEqual([1, 0])
  })

  test('whose relay refuses our login waits, and operators are told once, not with each attempt', async () => {
    const peer = await peerOf({ EHLO: '250-mx.posthorn.test\r\n250 AUTH PLAIN\r\n', AUTH: '535 5.7.8 me: no\r\n' })
    const sender = await senderOf()
    const ids = await submit(sender, 'ok', {}, 5)
    const service = await started({ route: parseRoute(`smtp://me:word@127.0.0.1:${peer.port}`), timeScale: 1 })
    for (const id of ids) await becomes(id, 'retrying')
    expect(lines.filter(({ what }) => what !== 'attempted')).toMatchObject([
      { what: 'relay login', facts: { relay: `relay 127.0.0.1:${peer.port}`, route: 'installation', code: 535 } },
    ])
    expect(JSON.stringify(lines)).not.toMatch(/word@|me:/)
    expect(service.loginsRefused).toBe(1)
  })

  test('keeps its schedule whatever the date of this machine is', async () => {
    const id = await one(await senderOf(), 'eod-451')
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 10 * 24 * 3600_000 })
    await started({ timeScale: 1 })
    await becomes(id, 'retrying')
    const { reason, nextAttemptAt } = (await facts(id)) as { reason: string; nextAttemptAt: string }
    const said = await world.value<number>('select extract(epoch from $1::timestamptz - app_now())::integer', [
      nextAttemptAt,
    ])
    expect([reason, said > 40 && said < 70]).toEqual(['eod_4xx', true])
  })
})

describe('turns', () => {
  test('a backlog of one workspace goes out without a rest, also where only its share of the slots holds it back', async () => {
    const sender = await senderOf()
    // So many that the destinations' own shares have grown past that of the workspace long before the end.
    for (let n = 0; n < 4; n++) await submit(sender, 'ok', { destination: `d${n}.example.org` }, 1_000)
    const deaf = { onDue: () => ({ stop: () => Promise.resolve() }) }
    await started({ ...deaf, timeScale: 1e-3 }) // whoever rests, rests a thousand seconds
    // What a machine that stalled has put back is another matter: it may rest.
    const left = () => world.value<number>(`select count(*)::integer from outbound where status <> 'retrying'`)
    await eventually(left, (many) => many === 0, 120_000)
  }, 180_000)

  test('2,000 messages for a receiver that says nothing do not delay another workspace', async () => {
    const stalled = await peerOf({ greeting: silence })
    const crowd = await senderOf(ownRelay(stalled))
    const other = await senderOf()
    await submit(crowd, 'ok', { destination: 'stalled.example' }, 2_000)
    const service = await started({ timeScale: 1 })
    await comesTo(
      () => world.value<number>(`select count(*)::integer from outbound where status = 'sending'`),
      limits.slotsAtFirst,
    )
    for (let turn = 0; turn < 3; turn++) await becomes(await one(other, 'ok'), 'sent', 5_000)
    // Who has not answered yet has the slots that everybody begins with, and the rest was left in the queue.
    await eventually(
      () => service.inFlight,
      (inFlight) => inFlight <= limits.slotsAtFirst,
    )
    expect(await world.value(`select count(*)::integer from outbound where status = 'queued'`)).toBeGreaterThanOrEqual(
      2_000 - limits.slotsAtFirst,
    )
  })

  test('while half of all destinations stall, one message of another workspace does not wait for them', async () => {
    const stalled = await peerOf({ greeting: silence })
    const [crowd, crowdToo, other] = [await senderOf(ownRelay(stalled)), await senderOf(), await senderOf()]
    for (let each = 0; each < 60; each++) {
      await submit(crowd, 'ok', { destination: `stalled${each}.example` }, 30)
      await submit(crowdToo, 'ok', { destination: `fine${each}.example` }, 5)
    }
    const service = await started({ timeScale: 1 })
    await reaches(() => service.inFlight, limits.stalledSlotsMax + 1)
    for (let turn = 0; turn < 5; turn++) {
      const id = await one(other, 'ok', { destination: `new${turn}.example` })
      // They say nothing for minutes. How long it takes is measured by the bench.
      await becomes(id, 'sent', 60_000)
    }
    // Those that do not answer keep half of all slots at most; what gave its slot back used no try, and says why.
    await eventually(
      () => service.inFlight,
      (inFlight) => inFlight <= limits.stalledSlotsMax,
    )
    // Its next wait goes by how often it was claimed without a try.
    const back = await world.db.run<{ message_id: MessageId; attempts: number; waited: boolean }>(
      `select message_id, attempts, epoch > attempts waited from outbound where status = 'retrying' and workspace_id = $1`,
      [crowd.workspaceId],
    )
    expect(back.length).toBeGreaterThan(0)
    expect(new Set(back.map(({ attempts }) => attempts))).toEqual(new Set([0]))
    expect(back.every(({ waited }) => waited)).toBe(true)
    expect(await facts(back[0]?.message_id as MessageId)).toMatchObject({
      reason: 'connect',
      errorMessage: expect.stringContaining('made way for others'),
    })
    expect(stalled.dots).toBe(0)
  })

  test('a host that says nothing to the mail of two workspaces, each to very many domains of it, delays nobody else', async () => {
    const stalled = await peerOf({ greeting: silence })
    const crowds = [await senderOf(), await senderOf()]
    const other = await senderOf(ownRelay(receiver))
    for (const [at, crowd] of crowds.entries())
      for (let first = 0; first < 650; first += 50)
        await Promise.all(
          Array.from({ length: 50 }, (_, n) => submit(crowd, 'ok', { destination: `pit${at}-${first + n}.example` })),
        )
    const service = await started({ timeScale: 1, route: relay(stalled) })
    const back = () => world.value<number>(`select count(*)::integer from outbound where status = 'retrying'`)
    // All slots are theirs, or were until some gave way.
    await eventually(
      async () => service.inFlight > limits.messagesInFlightMax - limits.claimLeast || (await back()) > 0,
      (full) => full,
    )
    // They say nothing for minutes. How long it takes is measured by the bench.
    for (let turn = 0; turn < 3; turn++) await becomes(await one(other, 'ok'), 'sent', 60_000)
    await eventually(
      () => service.inFlight,
      (inFlight) => inFlight <= limits.stalledSlotsMax,
    )
    expect(await world.value(`select count(*)::integer from outbound where status = 'retrying' and attempts > 0`)).toBe(
      0,
    )
  })

  test("what workspaces' own relays do to mail for a domain, be it silence or a pause, is nothing to others who write there", async () => {
    const silent = await peerOf({ greeting: silence })
    const busy = await peerOf({
      greeting: (socket) => void socket.end('421 4.7.0 Too many messages, try again in 3600 seconds\r\n'),
    })
    const one = await senderOf()
    const [crowd, paused] = [await senderOf(ownRelay(silent)), await senderOf(ownRelay(busy))]
    const service = await started({ timeScale: 1 })
    const both = async () => [
      ...(await submit(one, 'ok', { destination: 'x.example' })),
      ...(await submit(one, 'ok', { destination: 'y.example' })),
    ]
    for (const id of await both()) await becomes(id, 'sent')
    await submit(crowd, 'ok', { destination: 'x.example' }, 60)
    const [refused] = await submit(paused, 'ok', { destination: 'y.example' })
    await becomes(refused as MessageId, 'retrying')
    await reaches(() => service.inFlight, limits.slotsAtFirst)
    // Theirs is known to hang by now.
    const since = performance.now()
    await reaches(() => performance.now() - since, limits.stalledAfterMs)
    for (const id of await both()) await becomes(id, 'sent', 5_000)
  })

  test('a destination that asks for a pause gets one: its mail waits in the queue, and uses no try', async () => {
    let refuse = true
    const peer = await peerOf({
      greeting: (socket) => {
        if (refuse) socket.end('421 4.7.0 Too many connections, try again in 2 seconds\r\n')
        else socket.write('220 hello\r\n')
      },
    })
    const sender = await senderOf(ownRelay(peer))
    const service = await started({ timeScale: 1 })
    await submit(sender, 'ok', { destination: 'busy.example' }, 200)
    await reaches(() => world.value<number>(`select count(*)::integer from outbound where status = 'retrying'`), 1)
    await comesTo(() => service.inFlight, 0)
    const asked = peer.connections
    expect(asked).toBeLessThanOrEqual(limits.slotsAtFirst)
    const queued = () =>
      world.value<number>(`select count(*)::integer from outbound where status = 'queued' and attempts = 0`)
    expect(await queued()).toBeGreaterThanOrEqual(200 - 2 * limits.slotsAtFirst)
    refuse = false
    await eventually(queued, (many) => many === 0)
  })

  test('of what a rate lets through, every destination of a provider gets some, however many were known before', async () => {
    await setDestinationLimits(world.db, '*', { perMinute: 600 })
    const sender = await senderOf()
    await started()
    for (let round = 0; round < 2; round++) {
      const ids: MessageId[] = []
      for (let each = 0; each < 12; each++) ids.push(await one(sender, 'ok', { destination: `rated${each}.example` }))
      for (const id of ids) await becomes(id, 'sent')
    }
  })

  test('what waits for a rate is over when its time is', async () => {
    await setDestinationLimits(world.db, '*', { perMinute: 0.01 })
    const sender = await senderOf()
    await started()
    const known = [await one(sender, 'ok', { destination: 'one.example' })]
    await becomes(known[0] as MessageId, 'sent')
    known.push(await one(sender, 'ok', { destination: 'two.example' }))
    await becomes(known[1] as MessageId, 'retrying') // where it goes is known now: the next one stays in the queue
    const late = await one(sender, 'ok', { destination: 'two.example' })
    await world.db.run('update outbound set expires_at = app_now() where message_id = $1', [late])
    await becomes(late, 'failed')
    expect(await types(late)).toEqual(['queued', 'failed'])
    expect(await facts(late)).toMatchObject({ reason: 'expired' })
  })

  test('where a claim of few takes long, what comes meanwhile shares the next one', async () => {
    const sender = await senderOf()
    await submit(sender, 'ok')
    const looks: { began: number; ended: number; found: number }[] = []
    let began = 0
    const slow = watched(pool(1), {
      asked: (name) => {
        if (name === 'claim') began = performance.now()
      },
      answered: async (name, rows) => {
        if (name !== 'claim') return
        await setTimeout(20)
        looks.push({ began, ended: performance.now(), found: rows.length - 1 }) // the last row says where the walk ended
      },
    })
    await started({ db: slow })
    await eventually(
      () => looks.findIndex(({ found }) => found === 1),
      (index) => index >= 0 && looks.length > index + 1,
    )
    const at = looks.findIndex(({ found }) => found === 1)
    expect((looks[at + 1]?.began ?? 0) - (looks[at]?.ended ?? 0)).toBeGreaterThan(9)
  })

  test('what comes into sight long after it was due is sent, although most walks begin behind it', async () => {
    const sender = await senderOf()
    const late = await one(sender, 'ok')
    await world.db.run(
      `update outbound set status = 'sending', lease_until = app_now() + interval '1 hour', due_at = app_now() - interval '1 hour'`,
    )
    const since: unknown[] = []
    const asked = (name: string, values: readonly unknown[]) => name === 'claim' && since.push(values[10])
    await started({ db: watched(pool(1), { asked }) })
    await eventually(
      () => since,
      (seen) => seen.at(-1) instanceof Date,
    )
    await world.db.run(`update outbound set status = 'retrying', lease_until = null`)
    await becomes(late, 'sent')
    expect(since.filter((each) => each === '-infinity').length).toBeGreaterThan(1)
  })

  test('very many lanes with nothing due cost one look, and then comes a rest', async () => {
    const sender = await senderOf()
    await submit(sender, 'ok', {}, limits.lanesPerClaimMax + 60)
    await world.db.run(
      `update outbound set status = 'retrying', due_at = app_now() + interval '1 hour', destination = message_id::text`,
    )
    const claims: number[] = []
    const db = watched(pool(1), { asked: (name) => name === 'claim' && claims.push(performance.now()) })
    await started({ timeScale: 1, db, onDue: () => ({ stop: () => Promise.resolve() }) })
    await reaches(() => claims.length, 4)
    expect((claims[2] ?? 0) - (claims[1] ?? 0)).toBeGreaterThan(900)
    expect((claims[1] ?? 0) - (claims[0] ?? 0)).toBeGreaterThan(900)
  })
})

describe('a stop', () => {
  test('hands back at once what is not armed, without using a try', async () => {
    const { peer, held } = await peerThatHolds('RCPT')
    const ids = await submit(await senderOf(), 'ok', {}, limits.slotsAtFirst - 2)
    const service = await started({ route: relay(peer) })
    await reaches(() => held.length, 1)
    const began = performance.now()
    await service.stop()
    expect(performance.now() - began).toBeLessThan(limits.shutdownMs / 2)
    for (const id of ids) {
      expect(await queueRow(id)).toMatchObject({
        status: 'retrying',
        attempts: 0,
        lease_until: null,
        lease_owner: null,
      })
      expect((await types(id)).slice(0, 3)).toEqual(['queued', 'sending', 'retrying'])
      expect(await facts(id)).toMatchObject({ reason: 'shutdown' })
    }
    expect([peer.dots, service.inFlight]).toEqual([0, 0])
    await started()
    for (const id of ids) await becomes(id, 'sent')
  })

  test('waits for the reply of what is past the dot', async () => {
    const { peer, held } = await peerThatHolds('dot')
    const id = await one(await senderOf(), 'ok')
    const service = await started({ route: relay(peer), ...calm })
    await arrived(held, 1)
    let stopped = false
    const stopping = service.stop().then(() => (stopped = true))
    // The lease is kept meanwhile: two heartbeats after the stop.
    const before = (await queueRow(id))?.['lease_until'] as Date
    await eventually(
      () => queueRow(id),
      (row) => Number(row?.['lease_until']) > before.getTime() + leaseMs / 2,
    )
    expect(stopped).toBe(false)
    held[0]?.write('250 2.0.0 Ok: queued as LATE1\r\n')
    await stopping
    expect(await statusOf(id)).toBe('sent')
  })

  test('in the middle of a claim hands back what the claim brings', async () => {
    const id = await one(await senderOf(), 'ok')
    await world.db.run(
      `update outbound set status = 'retrying', due_at = app_now() + interval '1 hour' where message_id = $1`,
      [id],
    )
    const service = await started()
    const holder = await holding('lock table attachments in access exclusive mode')
    await waitsFor(holder)
    await world.db.run(`update outbound set due_at = app_now() - interval '2 seconds' where message_id = $1`, [id])
    const stopping = service.stop()
    await holder.query('rollback')
    await stopping
    expect(await types(id)).toEqual(['queued', 'sending', 'retrying'])
    expect(await queueRow(id)).toMatchObject({ attempts: 0, lease_until: null })
  })
})

test('a backlog does not wait for the time that it came from when the clock of the database is set back', async () => {
  const looked = Promise.withResolvers<void>()
  const db = watched(pool(2), { answered: (name) => name === 'database-now' && looked.resolve() })
  const gate = openGate()
  gate.open(false)
  try {
    await world.setClock(new Date(Date.now() + 3600_000).toISOString())
    const id = await one(await senderOf(), 'ok')
    await started({ db, gate, leaseMs })
    await looked.promise
    await world.setClock()
    gate.open(true)
    await becomes(id, 'sent')
  } finally {
    await world.setClock()
  }
})

test('nor when it was set back while nobody delivered', async () => {
  try {
    await world.setClock(new Date(Date.now() + 3600_000).toISOString())
    const id = await one(await senderOf(), 'ok')
    await world.setClock()
    await started()
    await becomes(id, 'sent')
  } finally {
    await world.setClock()
  }
})

test('what a relay that was away for a moment has put off goes when it is there again, and not at its next try; and no try is lost by it', async () => {
  const there = { now: false }
  const peer = await peerOf({
    greeting: (socket) => void (there.now ? socket.write('220 mx.posthorn.test ESMTP\r\n') : socket.destroy()),
  })
  const sender = await senderOf()
  const id = await one(sender, 'ok')
  // Ten minutes between two tries: nobody here waits for so long.
  await started({ route: relay(peer), timeScale: 10, retrySchedule: [6_000, 6_000] })
  await becomes(id, 'retrying')
  there.now = true
  await becomes(await one(sender, 'ok'), 'sent')
  await becomes(id, 'sent')
  expect((await facts(id))['attempt']).toBe(1)
})

describe('trouble with the database', () => {
  test('an arm whose end is not known: the dot is renounced, the claim disarmed, and the next try is the only transmission', async () => {
    const { peer, held } = await peerThatHolds('RCPT')
    const id = await one(await senderOf(), 'ok')
    await started({ route: relay(peer) })
    await arrived(held, 1)
    const holder = await holding('select from outbound where message_id = $1 for update', [id])
    held[0]?.write('250 ok\r\n')
    await endWhoWaitsFor(holder)
    await eventually(faults, (seen) => seen.includes('arm'))
    await holder.query('rollback')
    await arrived(held, 2)
    expect(peer.dots).toBe(0)
    held[1]?.write('250 ok\r\n')
    await becomes(id, 'sent')
    expect(peer.dots).toBe(1)
    expect(await types(id)).toEqual(['queued', 'sending', 'retrying', 'sending', 'sent'])
    // By the worker itself: had the arm been committed, the reaper would have told that nobody can know.
    const reasons = await world.db.run(
      `select facts ->> 'reason' reason from attempts where message_id = $1 order by epoch`,
      [id],
    )
    expect(reasons[0]).toEqual({ reason: 'arm_failed' })
  })

  test.each(['arm', 'content'])(
    'an outage at the %s of a message costs it a moment, and neither a try nor the pause behind one',
    async (what) => {
      const { peer, held } = await peerThatHolds('RCPT')
      const id = await withFile(await senderOf(), 100_000)
      const first = what === 'content' ? await holding('lock table blobs in access exclusive mode') : undefined
      await started({ route: relay(peer), timeScale: 1 })
      if (what === 'arm') await arrived(held, 1)
      const holder = first ?? (await holding('select from outbound where message_id = $1 for update', [id]))
      if (what === 'arm') held[0]?.write('250 ok\r\n')
      await endWhoWaitsFor(holder)
      await eventually(faults, (seen) => seen.includes(what === 'arm' ? 'arm' : 'attempt'))
      await holder.query('rollback')
      await becomes(id, 'retrying')
      expect(await queueRow(id)).toMatchObject({ attempts: 0 })
      const waits = await world.value<number>(
        `select extract(epoch from due_at - app_now())::float8 from outbound where message_id = $1`,
        [id],
      )
      expect(waits).toBeLessThan(2)
      await arrived(held, what === 'arm' ? 2 : 1)
      held.at(-1)?.write('250 ok\r\n')
      await becomes(id, 'sent')
      expect(peer.dots).toBe(1)
    },
  )

  test('a finish whose end is not known is repeated until it is', async () => {
    const { peer, held } = await peerThatHolds('dot')
    const id = await one(await senderOf(), 'ok')
    await started({ route: relay(peer) })
    await arrived(held, 1)
    const holder = await holding('select from outbound where message_id = $1 for update', [id])
    held[0]?.write('250 2.0.0 ok\r\n')
    await endWhoWaitsFor(holder)
    await eventually(faults, (seen) => seen.includes('finish'))
    await holder.query('rollback')
    await becomes(id, 'sent')
    expect(peer.dots).toBe(1)
    expect(await types(id)).toEqual(['queued', 'sending', 'sent'])
  })

  test("a disk that does not take this node's mark uses no try of any message, however often, and nothing is sent until it does", async () => {
    const node = await world.node()
    let isFull = true
    const ownMark = makeMark({ node: node.node, counter: 0, era: 0 }, () =>
      isFull ? Promise.reject(Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })) : Promise.resolve(),
    )
    const peer = await peerOf()
    const id = await one(await senderOf(), 'ok')
    await world.db.run('update outbound set attempts = 9 where message_id = $1', [id])
    await started({ route: relay(peer), recorder: makeRecorder(pool(1), pool(1), ownMark) })
    await reaches(() => faults().filter((what) => what === 'arm').length, 3)
    expect(peer.dots).toBe(0)
    isFull = false
    await becomes(id, 'sent')
    expect([peer.dots, await facts(id)]).toMatchObject([1, { attempt: 10 }])
  })

  test.each([
    ['DKIM key', 'dkim_key_pairs', 'private_key_sealed', 'workspace_id'],
    ['route', 'workspaces', 'route_sealed', 'id'],
  ])(
    'a %s that the vault does not open uses no try of a message, however often: it goes when that is mended',
    async (_, table, column, key) => {
      const sender = await senderOf(ownRelay(receiver))
      const change = `update ${table} set ${column} = $2 where ${key} = $1`
      const was = await world.value<Buffer>(`select ${column} from ${table} where ${key} = $1`, [sender.workspaceId])
      await world.db.run(change, [sender.workspaceId, vault.seal('x', 'something else')])
      const id = await one(sender, 'ok')
      await world.db.run('update outbound set attempts = 9 where message_id = $1', [id])
      await started()
      for (let times = 1; times <= 2; times++) {
        await comesTo(() => faults().length, times)
        await becomes(id, 'retrying')
        expect([await queueRow(id), await facts(id)]).toMatchObject([{ attempts: 9 }, { reason: 'worker_lost' }])
        if (times === 2) await world.db.run(change, [sender.workspaceId, was])
        await world.db.run('update outbound set due_at = app_now() where message_id = $1', [id])
      }
      await becomes(id, 'sent')
      expect(await facts(id)).toMatchObject({ attempt: 10 })
    },
  )

  test('a machine out of files while a message is composed, or its host is called, uses none of its tries', async () => {
    const outOfFiles = () => Promise.reject(Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' }))
    const transmitter = toReceiver()
    let left = 1
    const db = watched(pool(2), { asked: (name) => name === 'read-blob' && left-- > 0 && outOfFiles() })
    let calls = 0
    const transmit: DeliverTools['transmitter']['transmit'] = (job) =>
      calls++ === 0 ? outOfFiles() : transmitter.transmit(job)
    const blob = world.nextId()
    await stageBlob(world.db, blob, Buffer.from('Hello'))
    const id = await one(await senderOf(), 'ok', { body: undefined, body_blob: blob })
    await world.db.run('update outbound set attempts = 5 where message_id = $1', [id])
    await started({ db, transmitter: { ...transmitter, transmit } })
    for (let lack = 1; lack <= 2; lack++) {
      await becomes(id, 'retrying')
      expect(await queueRow(id)).toMatchObject({ attempts: 5 })
      await world.db.run('update outbound set due_at = app_now() where message_id = $1', [id])
      await comesTo(() => calls, lack)
    }
    await becomes(id, 'sent')
    expect(await types(id)).toEqual(['queued', 'sending', 'retrying', 'sending', 'retrying', 'sending', 'sent'])
    expect(faults()).toEqual(['attempt', 'attempt'])
  })

  test('while a message is composed is no fault of the message, however often it was tried', async () => {
    const sender = await senderOf()
    const blob = world.nextId()
    await stageBlob(world.db, blob, Buffer.from('Hello'))
    const id = await one(sender, 'ok', { body: undefined, body_blob: blob })
    await world.db.run('update outbound set attempts = 5 where message_id = $1', [id])
    const holder = await holding('lock table blobs in access exclusive mode')
    await started()
    await endWhoWaitsFor(holder)
    await eventually(faults, (seen) => seen.includes('attempt'))
    await holder.query('rollback')
    await becomes(id, 'sent')
    expect(await types(id)).toEqual(['queued', 'sending', 'retrying', 'sending', 'sent'])
  })
})

describe('a stop of delivery everywhere', () => {
  test('hands back at once also what waits for others to have read their content', async () => {
    const gate = openGate()
    gate.open(false)
    const sender = await senderOf()
    const ids = await Promise.all(Array.from({ length: 8 }, () => withFile(sender, 100_000)))
    const holder = await holding('lock table blobs in access exclusive mode')
    await started({ db: pool(4), gate })
    gate.open(true)
    await waitsFor(holder)
    gate.open(false)
    const untried = () =>
      world.db.run(`select from outbound where message_id = any ($1) and status = 'retrying' and attempts = 0`, [ids])
    await eventually(untried, ({ length }) => length === ids.length - limits.contentReadsMax)
    await holder.query('rollback')
    await eventually(untried, ({ length }) => length === ids.length)
    expect(faults()).toEqual([])
    gate.open(true)
    for (const id of ids) await becomes(id, 'sent')
  })

  test('uses no try of a message whose content cannot be read any more', async () => {
    const gate = openGate()
    const id = await withFile(await senderOf(), 100_000)
    const holder = await holding('lock table blobs in access exclusive mode')
    await started({ db: pool(4), gate })
    await waitsFor(holder)
    gate.open(false)
    await endWhoWaitsFor(holder)
    await becomes(id, 'retrying')
    expect(await queueRow(id)).toMatchObject({ attempts: 0, lease_until: null })
    expect(faults()).toContain('attempt')
    await holder.query('rollback')
    gate.open(true)
    await becomes(id, 'sent')
  })

  test('hands back what is not armed, claims nothing, and goes on when it is over', async () => {
    const { peer, held } = await peerThatHolds('RCPT')
    const id = await one(await senderOf(), 'ok')
    const gate = openGate()
    await started({ route: relay(peer), gate })
    await arrived(held, 1)
    gate.open(false)
    await becomes(id, 'retrying')
    expect(await queueRow(id)).toMatchObject({ attempts: 0, lease_until: null })
    const next = await one(await senderOf(), 'ok')
    gate.open(true)
    await reaches(() => held.length, 2)
    gate.open(false)
    await becomes(id, 'retrying')
    expect([peer.dots, (await types(next)).includes('sent')]).toEqual([0, false])
  })

  test('hands back what a claim brings that was on its way: nobody is called', async () => {
    const peer = await peerOf()
    const id = await one(await senderOf(), 'ok')
    const gate = openGate()
    gate.open(false)
    const holder = await holding('lock table attachments in access exclusive mode')
    await started({ route: relay(peer), gate })
    gate.open(true)
    await waitsFor(holder)
    gate.open(false)
    await holder.query('rollback')
    await becomes(id, 'retrying')
    expect(await queueRow(id)).toMatchObject({ attempts: 0, lease_until: null })
    expect([peer.connections, await facts(id)]).toMatchObject([0, { reason: 'shutdown' }])
  })

  test('that the database knows first: the arm is halted, the claim handed back, and no dot is written', async () => {
    const { peer, held } = await peerThatHolds('RCPT')
    const id = await one(await senderOf(), 'ok')
    await started({ route: relay(peer) })
    await arrived(held, 1)
    await world.db.run(`select stop_delivery_1('drain', 'test', null)`)
    held[0]?.write('250 ok\r\n')
    await becomes(id, 'retrying')
    expect([peer.dots, await facts(id), (await queueRow(id))?.['attempts']]).toMatchObject([
      0,
      { reason: 'shutdown' },
      0,
    ])
    await world.db.run('delete from delivery_stops')
  })

  test('nobody claims before this node has compared itself with the database', async () => {
    const peer = await peerOf()
    const id = await one(await senderOf(), 'early')
    const gate = openGate()
    gate.open(false)
    let looks = 0
    const isOpen = () => (looks++, gate.isOpen())
    await started({ route: relay(peer), gate: { ...gate, isOpen } })
    await reaches(() => looks, 2)
    gate.open(true)
    await becomes(id, 'sent')
    expect((await world.history(id)).filter((line) => line.includes('message.sending'))).toHaveLength(1)
  })

  test('nobody reaps in a database that is not known yet', async () => {
    const [orphan] = await world.claimed(await senderOf(), [{ armed: true, leaseSeconds: -1 }])
    let looks = 0
    const knowsDatabase = () => {
      looks++
      return false
    }
    const service = await started({ gate: { ...openGate(), knowsDatabase }, leaseMs: 400 })
    await eventually(
      () => looks,
      (many) => many >= 8, // four to a lease
    )
    await service.stop()
    expect(await statusOf(orphan?.id as MessageId)).toBe('sending')
  })
})

test('a reply that the database does not hear within a second goes to the journal, and leaves it when it is heard', async () => {
  const journal = memoryJournal()
  const { peer, held } = await peerThatHolds('dot')
  const id = await one(await senderOf(), 'ok')
  await started({ route: relay(peer), journal })
  await arrived(held, 1)
  const holder = await holding('select from outbound where message_id = $1 for update', [id])
  held[0]?.write('250 2.0.0 ok\r\n')
  await arrived(journal.kept, 1)
  expect([journal.kept[0]?.id, journal.kept[0]?.status, journal.settled]).toEqual([id, 'sent', []])
  await holder.query('rollback')
  await becomes(id, 'sent')
  await eventually(
    () => journal.settled,
    (settled) => settled.includes(id),
  )
})

test('what the journal could not take is offered to it again; what is no reply to a dot never is', async () => {
  const journal = memoryJournal()
  const offered: string[] = []
  const keep: typeof journal.keep = (ending) =>
    offered.push(ending.status) < 3 ? Promise.reject(new Error('no space left')) : journal.keep(ending)
  const { peer, held } = await peerThatHolds('dot')
  const sender = await senderOf()
  for (const local of ['ok', 'lost']) await one(sender, local)
  await started({ route: relay(peer), journal: { ...journal, keep } })
  await arrived(held, 2)
  const holder = await holding('select from outbound for update')
  held[0]?.destroy()
  held[1]?.write('250 2.0.0 ok\r\n')
  await arrived(journal.kept, 1)
  await holder.query('rollback')
  const [taken] = journal.kept
  await becomes(taken?.id as MessageId, 'sent')
  await arrived(journal.settled, 1)
  expect(journal.settled).toEqual([taken?.id])
  expect(new Set(offered)).toEqual(new Set(['sent']))
})

// A node that lives through a restore holds the reply, asks again, and hears that the claim is not its own: the reply was dropped there, and
// `recover --resume` sent the message a second time.
test('a reply to a message that the database has forgotten is never dropped: everybody stops, and whatever the operator decides, there is one copy', async () => {
  const { peer, held } = await peerThatHolds('dot')
  const id = await one(await senderOf(), 'ok')
  await started({ route: relay(peer) })
  await arrived(held, 1)
  // As a backup brings it back that is older than the claim.
  const holder = await holding(
    `update outbound set status = 'queued', epoch = 0, token = null, lease_until = null, lease_owner = null, armed_epoch = null,
            evidence = 'not_written', due_at = app_now() + interval '1 hour' where message_id = $1`,
    [id],
  )
  held[0]?.write('250 2.0.0 ok\r\n')
  await waitsFor(holder)
  await holder.query('commit')
  await eventually(
    () => readStops(world.db.rows),
    (stops) => stops.some(({ reason }) => reason === 'orphaned_reply'),
  )
  await world.db.run(`update outbound set due_at = app_now() - interval '2 seconds' where message_id = $1`, [id])
  expect(await liftFence(world.db)).toBe(1)
  expect([await statusOf(id), await queueRow(id), peer.dots]).toEqual(['sent', undefined, 1])
})

test('a message that cannot be composed fails after three tries, while others flow', async () => {
  const sender = await senderOf()
  const broken = await one(sender, 'ok')
  await world.db.run(`update messages set recipient = 'no address' where id = $1`, [broken])
  const fine = await submit(sender, 'ok', {}, 5)
  await started()
  for (const id of fine) await becomes(id, 'sent')
  await becomes(broken, 'failed')
  expect(await types(broken)).toEqual(
    ['queued', ...Array.from({ length: 3 }, () => 'sending'), 'failed']
      .toSpliced(2, 0, 'retrying')
      .toSpliced(4, 0, 'retrying'),
  )
  expect(await facts(broken)).toMatchObject({ reason: 'not_composable' })
  expect(faults()).toEqual(['attempt', 'attempt', 'attempt'])
})

describe('life', () => {
  survivesItsLife(
    'deliver',
    () => Promise.resolve(deliver()),
    async (_, withinMs) => {
      const id = await one(await senderOf(), 'ok')
      try {
        // Claimed by one that works; a disk that writes a whole installation back may hold up each commit of it for seconds.
        await eventually(
          () => statusOf(id),
          (status) => status !== 'queued',
          withinMs,
        )
        await becomes(id, 'sent', 60_000)
      } finally {
        await world.db.run('delete from outbound where message_id = $1', [id])
      }
    },
  )
})
