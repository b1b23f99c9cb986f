// A stop ends in its time whatever the database does, and no reply to a dot is lost by it: the journal has those that the database has not
// heard, and the next start tells them. Servers whose PostgreSQL hung, or was away with mail under way, needed a kill before.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { limits } from '../../src/config.ts'
import { ending } from '../world/ending.ts'
import { startPosthorn, type Posthorn, type PosthornOptions } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

/** Beside what a stop may wait for: the goodbyes, and a busy machine. Less than the ten seconds for which idle callers were waited for once. */
const slackMs = 8_000
const messages = 5

interface Scene {
  readonly receiver: Receiver
  readonly posthorn: Posthorn
}

async function scene(options: PosthornOptions): Promise<Scene> {
  const receiver = await ending(startReceiver, { hold: 'eod' })
  const posthorn = await ending(startPosthorn, {
    ...options,
    settings: { POSTHORN_ROUTE: `smtp://127.0.0.1:${receiver.port}`, ...options.settings },
  })
  return { receiver, posthorn }
}

/** Messages whose dots are with the receiver, which holds its replies. */
async function pastTheDot({ posthorn, receiver }: Scene) {
  const shop = await posthorn.workspace()
  const ids = []
  for (let n = 0; n < messages; n++) ids.push(await shop.accepted({ recipient: `ok@there${n}.example` }))
  for (const _ of ids) await receiver.reached('eod')
  return { shop, ids }
}

const journal = ({ posthorn }: Scene) => readFileSync(join(posthorn.dataDir, 'delivery', '1', 'journal.jsonl'), 'utf8')

async function timed<T>(work: Promise<T>): Promise<{ readonly result: T; readonly ms: number }> {
  const began = performance.now()
  const result = await work
  return { result, ms: performance.now() - began }
}

// Connections of callers that fell idle during the stop were waited for, ten seconds each time.
test('SIGTERM under load: every request gets an answer or a closed door, and nobody waits for connections that their callers keep', async () => {
  // Nothing is past a dot here: its reply would be waited for.
  const { posthorn } = await scene({ settings: { POSTHORN_ROLES: 'api,smtp,feedback,webhooks' } })
  const shop = await posthorn.workspace()
  for (let round = 0; round < 3; round++) {
    let on = true
    const accepted: string[] = []
    const callers = Array.from({ length: 8 }, async () => {
      while (on) {
        const answer = await shop.send({ recipient: 'ok@there.example' }).catch(() => undefined)
        if (answer?.status === 202) accepted.push(answer.body.id)
        else on = false
      }
    })
    while (accepted.length < 100) await new Promise((resolve) => setImmediate(resolve))
    const { result, ms } = await timed(posthorn.stop())
    on = false
    await Promise.all(callers)
    expect(result).toBe(0)
    expect(ms).toBeLessThan(slackMs)
    await posthorn.startAgain()
    const kept = await posthorn.query('select id from messages where id = any ($1::uuid[])', [accepted])
    expect(kept).toHaveLength(accepted.length)
  }
}, 180_000)

test('SIGHUP, which a closed terminal sends to all of its processes, is a stop like any other: replies to what is past its dot are waited for', async () => {
  const at = await scene({})
  const { posthorn, receiver } = at
  const { shop, ids } = await pastTheDot(at)
  const gone = posthorn.gone()
  const pids = posthorn.pids()
  for (const pid of [...pids, ...pids]) process.kill(pid, 'SIGHUP')
  receiver.release()
  await gone
  await posthorn.startAgain()
  for (const id of ids) expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
  expect(await receiver.ledger()).toHaveLength(messages)
}, 180_000)

// All of them at once: each takes as long as a stop may.
describe.concurrent('SIGTERM', () => {
  const cases: Record<string, Scene> = {}
  beforeAll(async () => {
    for (const name of ['idle', 'hangs', 'away']) cases[name] = await scene({ proxied: true })
    cases['embedded'] = await scene({ database: 'embedded' })
  }, 180_000)
  const sceneOf = (name: string) => cases[name] as Scene

  test('with nothing to do, while the database says nothing', async () => {
    const { posthorn } = sceneOf('idle')
    posthorn.proxy().hold(true)
    const { result, ms } = await timed(posthorn.stop())
    expect(result).toBe(0)
    expect(ms).toBeLessThan(limits.stopMs + slackMs)
  }, 180_000)

  test.each(['hangs', 'away'] as const)(
    'with mail past its dot, while the database %s: the replies are kept, and told at the next start',
    async (how) => {
      const at = sceneOf(how)
      const { posthorn, receiver } = at
      const { shop, ids } = await pastTheDot(at)
      posthorn.proxy()[how === 'hangs' ? 'hold' : 'away'](true)
      const stopped = timed(posthorn.stop())
      receiver.release()
      const { result, ms } = await stopped
      expect(result).toBe(0)
      expect(ms).toBeLessThan(limits.stopMs + slackMs)
      const kept = journal(at)
      expect(ids.filter((id) => !kept.includes(id))).toEqual([])
      posthorn.proxy().hold(false)
      posthorn.proxy().away(false)
      await posthorn.startAgain()
      for (const id of ids) expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
      expect(await receiver.ledger()).toHaveLength(messages)
    },
    90_000,
  )

  test('and when its own PostgreSQL is killed, it ends at once: nobody waits for what cannot come back', async () => {
    const at = sceneOf('embedded')
    const { posthorn, receiver } = at
    const { shop, ids } = await pastTheDot(at)
    await posthorn.disconnect()
    const postmaster = Number(
      readFileSync(join(posthorn.dataDir, 'postgresql', 'postmaster.pid'), 'utf8').split('\n')[0],
    )
    process.kill(postmaster, 'SIGKILL')
    receiver.release()
    const { ms } = await timed(posthorn.gone())
    expect(ms).toBeLessThan(slackMs)
    const kept = journal(at)
    expect(ids.filter((id) => !kept.includes(id))).toEqual([])
    await posthorn.startAgain()
    for (const id of ids) expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
    expect(await receiver.ledger()).toHaveLength(messages)
  }, 180_000)
})
