// The receiver of the webhook rows, and the bare pool that they are measured against. `sink`: an HTTP server that takes every POST and answers
// 200, a process of its own; GET /late answers how long after its `createdAt` each event came. `pool`: undici with an HMAC for each body of
// 600 bytes, nothing else, for so many seconds.
import { createHmac, createSecretKey, randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { Pool } from 'undici'

const [what = 'sink', port = '0', seconds = '5'] = process.argv.slice(2)
if (what === 'sink') serve()
else await flood()

function serve(): void {
  let late: number[] = []
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      response.end(JSON.stringify(late))
      late = []
      return
    }
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const now = Date.now()
      response.end()
      // The message's first event alone, and without parsing the rest: reading must not be what is measured.
      const text = Buffer.concat(chunks).toString('latin1', 0, 200)
      const [, at] = /"type":"message\.queued","createdAt":"([^"]+)"/.exec(text) ?? []
      if (at !== undefined && late.length < 100_000) late.push(now - Date.parse(at))
    })
  })
  server.keepAliveTimeout = 60_000
  server.listen(Number(port), '127.0.0.1', () => console.log('ready'))
}

async function flood(): Promise<void> {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: 100, pipelining: 1 })
  const key = createSecretKey('whsec_bench', 'utf8')
  const rest = 'x'.repeat(520)
  const ends = performance.now() + Number(seconds) * 1000
  const began = performance.now()
  let done = 0
  const caller = async (): Promise<void> => {
    while (performance.now() < ends) {
      const id = randomUUID()
      const body = JSON.stringify({ id, type: 'message.queued', data: { rest } })
      const timestamp = String(Math.floor(Date.now() / 1000))
      const digest = createHmac('sha256', key).update(timestamp).update('.').update(body).digest('hex')
      const answer = await pool.request({
        method: 'POST',
        path: '/',
        headers: {
          'content-type': 'application/json',
          'webhook-id': id,
          'webhook-timestamp': timestamp,
          'webhook-signature': `v1=${digest}`,
        },
        body,
      })
      await answer.body.dump()
      done++
    }
  }
  await Promise.all(Array.from({ length: 100 }, caller))
  console.log(`RESULT ${done / ((performance.now() - began) / 1000)}`)
  await pool.close()
}
