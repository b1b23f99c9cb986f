// `posthorn webhook`: the whole life of an endpoint.
import { beforeAll, expect, test } from 'vitest'
import { commandsOver } from './command.test-kit.ts'

const over = commandsOver()
const { posthorn, answer } = over

beforeAll(() => answer('workspace', 'create', '--name', 'Shop'))

test('a webhook endpoint from its first day to its first replay, each with --json', async () => {
  const local = { POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true' }
  const webhook = async (...args: string[]): Promise<unknown> => {
    const ended = await posthorn(['webhook', ...args, '--json'], local)
    expect(ended).toMatchObject({ status: 0, err: '' })
    return JSON.parse(ended.out)
  }
  const secret = expect.stringMatching(/^whsec_[\w-]{43}$/) as string
  const set = await webhook(
    'set',
    'Shop',
    '--url',
    'http://127.0.0.1:9/hook',
    '--events',
    'message.sent,message.failed',
  )
  expect(set).toMatchObject({ state: 'active', secret, events: ['message.sent', 'message.failed'], rotating: false })
  expect(await webhook('show', 'Shop')).not.toHaveProperty('secret')
  expect(await webhook('set', 'Shop', '--url', 'http://127.0.0.1:9/other', '--events', 'all')).not.toHaveProperty(
    'secret',
  )
  expect(await webhook('rotate', 'Shop')).toMatchObject({ rotating: true, secret })
  expect(await webhook('promote', 'Shop')).toMatchObject({
    rotating: false,
    previousUntil: expect.any(String) as string,
  })
  const { eventId } = (await webhook('test', 'Shop')) as { eventId: string }
  expect(await webhook('log', 'Shop')).toMatchObject([{ id: eventId, type: 'webhook.test', state: 'waiting' }])
  expect(await webhook('log', 'Shop', '--event', eventId)).toMatchObject({ id: eventId, attempts: [] })
  expect((await posthorn(['webhook', 'log', 'Shop', '--state', 'failed'])).out).toBe('There is no such event.\n')
  expect(await posthorn(['webhook', 'log', 'Shop', '--event', eventId, '--state', 'failed'])).toMatchObject({
    status: 2,
    err: expect.stringContaining('choose among events') as string,
  })
  expect(await webhook('replay', 'Shop', '--event', eventId)).toEqual({ replayed: 1 })
  for (const of of [['--undelivered'], ['--to', '2026-01-01T00:00:00Z']])
    expect(await posthorn(['webhook', 'replay', 'Shop', '--event', eventId, ...of])).toMatchObject({
      status: 2,
      err: expect.stringContaining('belong to --from') as string,
    })
  expect(await webhook('replay', 'Shop', '--from', '2026-01-01T00:00:00Z')).toEqual({ replayed: 0 })
  expect(await webhook('disable', 'Shop')).toMatchObject({ state: 'disabled', reason: 'by_hand' })
  expect(await webhook('enable', 'Shop')).toMatchObject({ state: 'active' })
  const db = over.open()
  await db.run(`update webhook_endpoints set failing_since = '2026-11-20T10:00:00Z'`)
  await db.close()
  expect((await posthorn(['webhook', 'show', 'Shop'])).out).toMatch(/^failing since: +2026-11-20T10:00:00\.000Z$/m)
  // With the development setting off, the same URL is refused with its reason.
  const refused = await posthorn(['webhook', 'set', 'Shop', '--url', 'http://127.0.0.1:9/hook'])
  expect(refused).toMatchObject({ status: 1, out: '' })
  expect(refused.err).toMatch(/"url" must begin with https/)
}, 180_000)
