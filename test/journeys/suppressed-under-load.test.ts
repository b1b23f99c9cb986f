// An address is suppressed while many sends to it are under way, over REST and over SMTP at once. From the moment in which whoever did it was told so, both
// ways refuse every send that begins; and of all others, as many messages exist as were accepted.
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'
import { acceptedAs, makeSmtpLogin, submitterOf } from '../world/submitter.ts'

let receiver: Receiver
let posthorn: Posthorn
let shop: JourneyWorkspace
beforeAll(async () => {
  receiver = await ending(startReceiver, { content: true })
  posthorn = await ending(startPosthorn, { settings: { POSTHORN_ROUTE: `smtp://127.0.0.1:${receiver.port}` } })
  shop = await posthorn.workspace()
})

const byApi = 'by-api@receiver.test'
const byCommand = 'by-command@receiver.test'
const recipients = [byApi, 'kept@receiver.test', byCommand]
const ways = ['rest', 'smtp'] as const
const sendersOfEachWay = 4

interface Sent {
  readonly way: (typeof ways)[number]
  readonly recipient: string
  readonly subject: string
  /** What had become of the recipient's suppression when the send began, and when it ended. */
  readonly before: Progress
  readonly after: Progress
  /** Of the message that was accepted; undefined: refused as suppressed. */
  readonly id: string | undefined
}
type Progress = 'none' | 'asked' | 'acknowledged'

test('a suppression under parallel load counts from its acknowledgement on, on both ways, and what was accepted is there', async () => {
  const { key } = await posthorn.cli<{ key: string }>(
    'key',
    'create',
    shop.id,
    '--name',
    'list',
    '--scope',
    'suppressions.write',
  )
  const kept = { pool: true, maxConnections: sendersOfEachWay, maxMessages: Infinity }
  const transport = submitterOf(posthorn, await makeSmtpLogin(posthorn, shop), kept)
  const overRest = async (recipient: string, subject: string): Promise<string | undefined> => {
    const { status, body } = await shop.send({ recipient, subject })
    if (status === 202) return body.id
    expect([status, body.code]).toEqual([422, 'recipient_suppressed'])
    return undefined
  }
  const overSmtp = (recipient: string, subject: string): Promise<string | undefined> =>
    transport.sendMail({ from: shop.address, to: recipient, subject, text: 'Hello' }).then(
      ({ response }) => acceptedAs(response),
      (error: { response?: string; message: string }) => {
        // At RCPT, or at the dot, where a busy workspace's list was remembered.
        expect(error.response ?? error.message).toMatch(/^550 5\.7\.1 recipient_suppressed/)
        return undefined
      },
    )

  const progress = new Map<string, Progress>()
  const progressOf = (recipient: string): Progress => progress.get(recipient) ?? 'none'
  const all: Sent[] = []
  const over = new AbortController()
  const sender = async (way: Sent['way'], name: number): Promise<void> => {
    for (let n = 0; !over.signal.aborted; n++) {
      const recipient = recipients[(n + name) % recipients.length] ?? ''
      const subject = `${way} ${name} ${n}`
      const before = progressOf(recipient)
      const id = await (way === 'rest' ? overRest : overSmtp)(recipient, subject)
      all.push({ way, recipient, subject, before, after: progressOf(recipient), id })
    }
  }
  const load = Promise.all(
    ways.flatMap((way) => Array.from({ length: sendersOfEachWay }, (_, name) => sender(way, name))),
  )
  const countOf = (way: Sent['way'], recipient: string, before: Progress): number =>
    all.filter((sent) => sent.way === way && sent.recipient === recipient && sent.before === before).length
  /** Until each way has had a few sends to this recipient that began at such a moment. */
  const begun = (recipient: string, before: Progress) =>
    Promise.race([
      load, // whose failure is the test's
      expect
        .poll(() => Math.min(...ways.map((way) => countOf(way, recipient, before))), { timeout: 60_000 })
        .toBeGreaterThanOrEqual(2 * sendersOfEachWay),
    ])
  const suppress = async (recipient: string, act: () => Promise<unknown>): Promise<void> => {
    await begun(recipient, 'none')
    progress.set(recipient, 'asked')
    await act()
    progress.set(recipient, 'acknowledged')
    await begun(recipient, 'acknowledged')
  }
  await suppress(byApi, async () => {
    const answer = await fetch(`${posthorn.url}/api/v1/suppressions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ recipient: byApi.toUpperCase() }),
    })
    expect(answer.status).toBe(201)
  })
  await suppress(byCommand, () => posthorn.cli('suppression', 'add', shop.id, byCommand))
  over.abort()
  await load
  transport.close()

  const accepted = all.filter(({ id }) => id !== undefined)
  const shown = ({ subject, recipient }: Sent): string => `${subject} to ${recipient}`
  expect(accepted.filter(({ before }) => before === 'acknowledged').map(shown)).toEqual([])
  expect(all.filter(({ id, after }) => id === undefined && after === 'none').map(shown)).toEqual([])

  // No message of a refused send, and none twice.
  const rows = await posthorn.query<{ id: string; recipient: string; subject: string }>(
    'select id, recipient, subject from messages where workspace_id = $1',
    [shop.id],
  )
  const inOrder = (kept: readonly { id: string | undefined; recipient: string; subject: string }[]): string[] =>
    kept.map(({ id, recipient, subject }) => `${subject} ${recipient} ${id}`).toSorted()
  expect(inOrder(rows)).toEqual(inOrder(accepted))
  expect(await posthorn.query('select month_count from usage where workspace_id = $1', [shop.id])).toEqual([
    { month_count: accepted.length },
  ])

  // Each of them was transmitted once; or not at all, where the suppression came before its dot.
  const ends = () =>
    posthorn.query<{ subject: string; recipient: string; status: string }>(
      'select subject, recipient, status from messages where workspace_id = $1',
      [shop.id],
    )
  const isEnded = ({ status }: { status: string }) => status === 'sent' || status === 'failed'
  await expect.poll(async () => (await ends()).every(isEnded), { timeout: 60_000 }).toBe(true)
  const ended = await ends()
  const failed = ended.filter(({ status }) => status === 'failed')
  expect(failed.filter(({ recipient }) => recipient === 'kept@receiver.test')).toEqual([])
  const received = (await receiver.ledger()).map(({ content }) => /^Subject: (.*)\r$/m.exec(content ?? '')?.[1] ?? '')
  const sent = ended.filter(({ status }) => status === 'sent').map(({ subject }) => subject)
  expect(received.toSorted()).toEqual(sent.toSorted())
})
