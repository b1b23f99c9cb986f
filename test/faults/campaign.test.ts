// The short form of the fault campaign (npm run faults has the full one): two nodes under load from REST and SMTP, killed, stopped and cut off again
// and again. Nothing lost, nothing twice, every unknown message was armed at a fault.
import { expect, test } from 'vitest'
import { runCampaign } from './campaign.ts'

// Another seed each day; it is told when the promise breaks.
const seed = Math.floor(Date.now() / 86_400_000)

test(`a small campaign keeps the promise (seed ${seed})`, async () => {
  const story: string[] = []
  const { breaches, counts, faults } = await runCampaign({
    kills: 4,
    messages: 450,
    seed,
    say: (words) => void story.push(words),
  })
  expect(breaches, story.join('\n')).toEqual([])
  expect(counts).toMatchObject({ lost: 0, twice: 0, unexplained: 0 })
  expect(counts['sent']).toBeGreaterThan(250)
  // Else the kills did not fall where it matters.
  expect(faults.filter(({ armed }) => armed.size > 0).length).toBeGreaterThan(0)
}, 720_000)
