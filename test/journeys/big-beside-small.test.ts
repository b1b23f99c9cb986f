// A message of the greatest size takes its time; small ones beside it do not wait for it, neither to be accepted nor to be delivered. And
// it arrives byte for byte.
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import PostalMime from 'postal-mime'
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { dkimVerdicts } from '../world/dkim-verdict.ts'
import { startDnsServer, type DnsServer } from '../world/dns-server.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { overMx, startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

const bigBytes = 20 * 1024 * 1024
let dns: DnsServer
let receiver: Receiver
let posthorn: Posthorn
let shop: JourneyWorkspace
beforeAll(async () => {
  receiver = await ending(startReceiver, { content: true })
  dns = await ending(startDnsServer, { 'there.example': { a: ['127.0.0.1'] } })
  posthorn = await ending(startPosthorn, { settings: overMx(dns, receiver) })
  shop = await posthorn.workspace()
})

test('20 MB beside small ones', { timeout: 270_000 }, async () => {
  const files = [randomBytes(bigBytes - 1_000), randomBytes(1_000)]
  const body = JSON.stringify(
    shop.body({
      recipient: 'ok+big@there.example',
      attachments: files.map((bytes, i) => ({
        filename: `file ${i}.bin`,
        contentType: 'application/x-test',
        contentBase64: bytes.toString('base64'),
      })),
    }),
  )
  const upload = request(`${posthorn.url}/api/v1/send`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${shop.key}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    },
  })
  let answered = false
  const answer = once(upload, 'response').then(async ([response]) => {
    answered = true
    return JSON.parse(await text(response as AsyncIterable<string>)) as { id: string; status: string }
  })
  upload.write(body.slice(0, body.length / 2))

  // Half of it is on its way: small ones are accepted and delivered meanwhile.
  const first = await Promise.all(
    Array.from({ length: 30 }, (_, i) => shop.accepted({ recipient: `ok+first${i}@there.example` })),
  )
  await Promise.all(first.map((id) => shop.settled(id)))
  expect(answered).toBe(false)

  upload.end(body.slice(body.length / 2))
  const second = await Promise.all(
    Array.from({ length: 30 }, (_, i) => shop.accepted({ recipient: `ok+second${i}@there.example` })),
  )
  const big = await answer
  expect(big.status).toBe('queued')
  expect(await shop.settled(big.id, 60_000)).toMatchObject({ processingStatus: 'sent', deliveryStatus: 'delivered' })
  for (const id of second) expect((await shop.settled(id)).processingStatus).toBe('sent')

  const ledger = await receiver.ledger()
  expect(ledger).toHaveLength(61)
  const content = ledger.find(({ to }) => to.includes('ok+big@there.example'))?.content ?? ''
  const mail = await PostalMime.parse(Buffer.from(content, 'latin1'))
  expect(mail.attachments.map(({ filename }) => filename)).toEqual(['file 0.bin', 'file 1.bin'])
  expect(mail.attachments.map(({ content }) => sha256(Buffer.from(content as ArrayBuffer)))).toEqual(files.map(sha256))
  expect(await dkimVerdicts(content, shop.records)).toEqual([`pass ${shop.address.split('@')[1]}`])
})

test('one byte more is refused, and nothing is kept or charged', { timeout: 180_000 }, async () => {
  const small = await posthorn.workspace({ plan: { hourly: 1 } })
  const { status, body } = await small.send({
    recipient: 'ok+huge@there.example',
    attachments: [{ filename: 'huge.bin', contentBase64: Buffer.alloc(bigBytes + 1).toString('base64') }],
  })
  expect({ status, code: body.code }).toEqual({ status: 400, code: 'attachments_too_large' })
  expect(await posthorn.query('select from messages where workspace_id = $1', [small.id])).toEqual([])
  expect((await small.send({ recipient: 'ok+fine@there.example' })).status).toBe(202)
})

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
