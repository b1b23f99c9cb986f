// A real clamd that is killed when it has half of a file: 503 over REST and 451 over SMTP; nothing is accepted, charged or remembered under its key. The
// same mail passes when the engine is back.
import type { Transporter } from 'nodemailer'
import { beforeAll, expect, test } from 'vitest'
import { atTheEnd, ending } from '../world/ending.ts'
import { startClamd, startClamdDoor, type Clamd, type ClamdDoor } from '../world/clamd.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { acceptedAs, makeSmtpLogin, submitterOf } from '../world/submitter.ts'

let clamd: Clamd
let door: ClamdDoor
let posthorn: Posthorn
let shop: JourneyWorkspace
let transport: Transporter
beforeAll(async () => {
  clamd = await ending(startClamd)
  door = await ending(startClamdDoor, clamd)
  posthorn = await ending(startPosthorn, { settings: { POSTHORN_CLAMD: door.url } })
  shop = await posthorn.workspace()
  transport = submitterOf(posthorn, await makeSmtpLogin(posthorn, shop))
  atTheEnd(() => transport.close())
})

const to = 'delivered@simulator.posthorn.test'
const large = Buffer.alloc(8_000_000, 'x')
/** More than the wires between hold, so that the engine itself has read of it. */
const half = large.length / 2

const overRest = async (): Promise<string> => {
  const attachments = [{ filename: 'large.bin', contentBase64: large.toString('base64') }]
  const { status, headers, body } = await shop.send({ recipient: to, attachments }, { 'idempotency-key': 'once' })
  if (status === 202) return body.id
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
  return `${status} ${body.code}`
}
/** The same octets each time: a key names one mail. */
const raw = () =>
  [
    `From: ${shop.address}`,
    `To: ${to}`,
    'Subject: Large',
    'Date: Tue, 24 Nov 2026 12:00:00 +0000',
    'Message-ID: <large@shop.example>',
    'X-Idempotency-Key: once',
    'MIME-Version: 1.0',
    'Content-Type: application/octet-stream; name=large.bin',
    'Content-Disposition: attachment; filename=large.bin',
    'Content-Transfer-Encoding: base64',
    '',
    large.toString('base64').replace(/.{76}/g, '$&\r\n'),
    '',
  ].join('\r\n')
const overSmtp = async (): Promise<string> =>
  transport.sendMail({ envelope: { from: shop.address, to }, raw: raw() }).then(
    ({ response = '' }) => acceptedAs(response) ?? response,
    (error: { response?: string; message: string }) => error.response ?? error.message,
  )
const kept = async () => {
  const [row] = await posthorn.query<{ charged: number; keys: number }>(
    `select (select count(*)::integer from messages where workspace_id = $1) messages,
            (select count(*)::integer from outbound where workspace_id = $1) queued,
            (select count(*)::integer from idempotency_keys where workspace_id = $1) keys,
            (select count(*)::integer from blobs) + (select count(*)::integer from staged_blobs) blobs,
            (select coalesce(sum(month_count), 0)::integer from usage where workspace_id = $1) charged`,
    [shop.id],
  )
  return row
}

test.each([
  ['REST', overRest, /^503 scanner_unavailable$/],
  ['SMTP', overSmtp, /^451 4\.3\.0 scanner_unavailable: /],
] as const)(
  'over %s, a scan that dies in the middle accepts nothing, and the same mail passes after it',
  async (_, send, refused) => {
    const before = await kept()
    const held = door.holdBehind(half)
    const sending = send()
    await held
    await clamd.kill()
    expect(await sending).toMatch(refused)
    expect(await kept()).toEqual(before)

    await clamd.start()
    const id = await send()
    await shop.settled(id) // what is counted stands still for the next case
    const { scan } = await posthorn.cli<{ scan: object }>('message', 'show', id)
    expect(scan).toEqual({ verdict: 'clean', engine: expect.stringMatching(/^ClamAV \d/) })
    expect((await kept())?.charged).toBe((before?.charged ?? 0) + 1)
    expect((await kept())?.keys).toBeGreaterThan(before?.keys ?? 0)
    // Under its key it is one message from here on.
    expect(await send()).toBe(id)
  },
)
