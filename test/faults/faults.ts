// npm run faults -- [--kills 60] [--messages 10000] [--seed N]: one fault campaign by hand. Ends with 1 when the promise was broken.
import { parseArgs } from 'node:util'
import { runCampaign } from './campaign.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '60' },
    messages: { type: 'string', default: '10000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
})
const options = { kills: Number(values.kills), messages: Number(values.messages), seed: Number(values.seed) }
const say = (words: string) => process.stdout.write(`${words}\n`)
const { counts, breaches, faults, befell, seconds } = await runCampaign({ ...options, say })

const byKind = new Map<string, number>()
for (const { what } of faults) byKind.set(what, (byKind.get(what) ?? 0) + 1)
say(`\nfaults: ${[...byKind].map(([what, times]) => `${times} ${what}`).join('; ')}`)
say(`on rough wires: ${[...befell].map(([what, times]) => `${times} ${what}`).join('; ')}`)
for (const [what, figure] of Object.entries(counts)) say(`${String(figure).padStart(8)} ${what}`)
for (const words of breaches.slice(0, 50)) say(`BREACH ${words}`)
say(
  `${breaches.length === 0 ? 'kept' : `BROKEN (${breaches.length})`} after ${seconds} s: npm run faults -- ` +
    `--kills ${options.kills} --messages ${options.messages} --seed ${options.seed}`,
)
process.exitCode = breaches.length === 0 ? 0 : 1
