// The promise of webhooks among faults at every border, by seeds (faulty.test-kit.ts): each event is posted until it is taken or its tries are over, in its order,
// signed, to its own endpoint; no result is lost or invented. A failure tells its seed; WEBHOOK_SEED and WEBHOOK_RUNS try others.
import { afterAll, expect, test } from 'vitest'
import { faultyWorld } from './faulty.test-kit.ts'

const world = await faultyWorld()
afterAll(() => world.close())

const first = Number(process.env['WEBHOOK_SEED'] ?? 10)
const many = Number(process.env['WEBHOOK_RUNS'] ?? 4)

// With claims that forget what a lost answer has brought, 12 and 13 are found wanting.
test.each(Array.from({ length: many }, (_, at) => first + at))('seed %i', async (seed) => {
  const { breaches, story, counts } = await world.run(seed)
  expect(breaches, story.slice(-400).join('\n')).toEqual([])
  expect(counts).toMatchObject({ request: expect.any(Number) as number, 'answer 200': expect.any(Number) as number })
})
