// What Prometheus hears of requests. The duration was always 0 once: Fastify's own clock runs only with its logger.
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { buildApp } from './app.ts'
import { goodKey, mailboxId, optionsWith, recordOf } from './face.test-kit.ts'

test('every answer is counted with its route, its status and the time that it took', async () => {
  const heard: [string, number, number][] = []
  const options = optionsWith({
    accept: async (submission) => {
      await setImmediate()
      return { message: recordOf(submission), replayed: false, quota: [] }
    },
  })
  const app = buildApp({ ...options, metrics: { answered: (...told) => void heard.push(told) } })
  const send = (key: string) =>
    app.inject({
      method: 'POST',
      url: '/api/v1/send',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      payload: JSON.stringify({ mailboxId, recipient: 'ada@example.org', subject: 's', bodyText: 'b' }),
    })
  await send(goodKey)
  await send('ph_wrong')
  await app.close()
  expect(heard.map(([route, status]) => [route, status])).toEqual([
    ['/api/v1/send', 202],
    ['/api/v1/send', 401],
  ])
  for (const [, , seconds] of heard) expect(seconds).toBeGreaterThan(0)
})
