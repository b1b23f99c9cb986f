// 100 clients send 20 MB each at the same moment (attack Q7). The process stays bounded, everybody gets an answer or is told to come again, what
// was accepted is there once, and small sends go through meanwhile.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'

const clients = 100
let posthorn: Posthorn
let shops: JourneyWorkspace[]
beforeAll(async () => {
  posthorn = await ending(startPosthorn, { settings: { POSTHORN_ROLES: 'api' } })
  shops = [await posthorn.workspace(), await posthorn.workspace()]
})

test('100 large sends at once: bounded memory, and small ones go on', { timeout: 450_000 }, async () => {
  const content = Buffer.from(randomBytes(20 * 1024 * 1024).toString('base64'))
  const open = new Set(Array.from({ length: clients }, (_, n) => n))
  const answers = Array.from({ length: clients }, async (_, n) => {
    const status = await upload(shops[n % 2] as JourneyWorkspace, content)
    open.delete(n)
    return status
  })
  let small = 0
  while (open.size > 0) {
    for (const shop of shops) await shop.accepted({ recipient: 'small@there.example' })
    small += shops.length
  }
  const statuses = await Promise.all(answers)
  const accepted = statuses.filter((status) => status === 202).length
  // 0: the connection ended while the client was still writing and did not listen.
  expect(statuses.filter((status) => ![202, 503, 0].includes(status))).toEqual([])
  expect(accepted).toBeGreaterThan(0)
  expect(small).toBeGreaterThan(shops.length)
  const [kept] = await posthorn.query<{ many: number; bytes: number }>(
    `select count(*)::integer many, coalesce(sum(size_bytes), 0)::float bytes from attachments`,
  )
  expect(kept).toEqual({ many: accepted, bytes: accepted * 20 * 1024 * 1024 })
  expect(peakMegabytes(posthorn.pids()[0] ?? 0)).toBeLessThan(600)
})

/** The highest resident set so far, in megabytes of a million bytes. */
function peakMegabytes(pid: number): number {
  return (Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024) / 1e6
}

function upload(shop: JourneyWorkspace, content: Buffer): Promise<number> {
  const attachments = [{ filename: 'large.bin', contentBase64: '*' }]
  const [before, behind] = JSON.stringify(shop.body({ recipient: 'large@there.example', attachments }))
    .split('*')
    .map((part) => Buffer.from(part)) as [Buffer, Buffer]
  const headers = {
    authorization: `Bearer ${shop.key}`,
    'content-type': 'application/json',
    'content-length': before.length + content.length + behind.length,
  }
  return new Promise((resolve) => {
    const sent = request(`${posthorn.url}/api/v1/send`, { method: 'POST', headers }, (response) => {
      response.resume().once('close', () => resolve(response.statusCode ?? 0))
    })
    sent.once('error', () => resolve(0))
    sent.write(before)
    sent.write(content) // one buffer for all of them
    sent.end(behind)
  })
}
