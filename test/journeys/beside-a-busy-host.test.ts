// One provider, two of its mail hosts, and a few connections for both: a long line at one of them is no reason to wait at the other.
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { startDnsServer, type DnsServer } from '../world/dns-server.ts'
import { overMx, startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

let dns: DnsServer
let busy: Receiver
let quiet: Receiver
let posthorn: Posthorn
beforeAll(async () => {
  busy = await ending(startReceiver, { host: '127.0.0.2' })
  quiet = await ending(startReceiver, { host: '127.0.0.3', port: busy.port })
  dns = await ending(startDnsServer, {
    'one.example': { mx: [{ preference: 0, exchange: 'a.big.test' }] },
    'two.example': { mx: [{ preference: 0, exchange: 'b.big.test' }] },
    'a.big.test': { a: ['127.0.0.2'] },
    'b.big.test': { a: ['127.0.0.3'] },
  })
  posthorn = await ending(startPosthorn, { settings: overMx(dns, busy) })
})

test("one customer's backlog at a host leaves the other hosts of its provider to the others", async () => {
  const [crowd, other] = [await posthorn.workspace(), await posthorn.workspace()]
  const backlog = 600
  for (let sent = 0; sent < backlog; sent += 50)
    await Promise.all(
      Array.from({ length: 50 }, (_, n) => crowd.accepted({ recipient: `slow-eod-500ms+${sent + n}@one.example` })),
    )
  const inLine = () =>
    posthorn.query<{ n: number }>(
      `select count(*)::integer n from outbound where status = 'sending' and destination = 'one.example'`,
    )
  await expect.poll(async () => (await inLine())[0]?.n ?? 0, { timeout: 30_000, interval: 20 }).toBeGreaterThan(25)
  const id = await other.accepted({ recipient: 'ok@two.example' })
  expect(await other.settled(id)).toMatchObject({ processingStatus: 'sent' })
  expect((await quiet.ledger()).length).toBe(1)
  // Most of the backlog was still to come.
  expect((await busy.ledger()).length).toBeLessThan(backlog / 2)
}, 120_000)
