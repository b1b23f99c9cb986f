// What posting can cost at least: undici with an HMAC for each body of 600 bytes, nothing else, for so many seconds.
import { createHmac, createSecretKey, randomUUID } from 'node:crypto'
import { Pool } from 'undici'

const [port = '0', seconds = '5'] = process.argv.slice(2)
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
