// npm run simulate -- [--schedules 50000] [--seed N] [--weather NAME] [--mutation NAME | --mutations]: runs schedules of the simulation, each with a seed of its own,
// from the first on. A schedule that breaks the promise is told with the command that replays it alone. With --mutations every mutation
// is tried until it has failed.
import crypto, { generateKeyPairSync, randomBytes } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import dns from 'node:dns/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { makeVault, sealedAs } from '../../src/base/secret.ts'
import { chance } from '../world/random.ts'
import { simulatedWorkspace } from './model-database.ts'
import { mutations, type Patch } from './mutations.ts'
import { isWeather, runSchedule, type Code, type Edges, type Mutation, type Verdict } from './world.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const say = (words: string) => process.stdout.write(`${words}\n`)

/** The outermost edges of the real code: connections, name servers, and the processor's time for signatures. */
const edges: Edges = {
  connect: () => {
    throw new Error('nobody is simulated')
  },
}
Object.assign(net, { connect: () => edges.connect() })
Object.assign(crypto, {
  sign: (_digest: unknown, _data: unknown, _key: unknown, done: (error: null, signature: Buffer) => void) =>
    queueMicrotask(() => done(null, Buffer.alloc(128))),
})
Object.assign(dns, {
  lookup: () => Promise.resolve(['192.0.2.1', '192.0.2.2'].map((address) => ({ address, family: 4 }))),
})
syncBuiltinESMExports()

async function loadCode(source: string): Promise<Code> {
  const load = (file: string) => import(pathToFileURL(join(source, file)).href)
  return {
    deliver: (await load('deliver/deliver.ts')) as Code['deliver'],
    journal: (await load('deliver/journal.ts')) as Code['journal'],
    mark: (await load('deliver/mark.ts')) as Code['mark'],
    outbound: (await load('store/outbound.ts')) as Code['outbound'],
    fence: (await load('store/fence.ts')) as Code['fence'],
  }
}

/** A copy of the source with the patches in it. */
function patched(patches: readonly Patch[]): { source: string; forget(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'posthorn-mutation-'))
  cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true })
  cpSync(join(root, 'package.json'), join(folder, 'package.json'))
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  for (const { file, from, to } of patches) {
    const path = join(folder, 'src', file)
    const text = readFileSync(path, 'utf8')
    if (text.split(from).length !== 2) throw new Error(`${file} does not have exactly one: ${from}`)
    writeFileSync(
      path,
      text.replace(from, () => to),
    )
  }
  return { source: join(folder, 'src'), forget: () => rmSync(folder, { recursive: true, force: true }) }
}

const vault = makeVault(randomBytes(32).toString('base64'))
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const sealed = vault.seal(
  privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  sealedAs.dkimKey(simulatedWorkspace, 'shop.example'),
)

interface Found {
  readonly seed: number
  readonly verdict: Verdict
}

async function schedules(
  code: Code,
  mutation: Mutation,
  seeds: readonly number[],
): Promise<{ sum: Sum; found: Found | undefined }> {
  const sum: Sum = { schedules: 0, dots: 0, kills: 0, ends: {} }
  for (const seed of seeds) {
    const verdict = await runSchedule({
      chance: chance(seed),
      code,
      edges,
      mutation,
      vault,
      sealed,
      say: seeds.length === 1 ? say : undefined,
    })
    sum.schedules++
    sum.dots += verdict.dots
    sum.kills += verdict.kills
    for (const [status, times] of Object.entries(verdict.ends)) sum.ends[status] = (sum.ends[status] ?? 0) + times
    if (verdict.breaches.length > 0) return { sum, found: { seed, verdict } }
  }
  return { sum, found: undefined }
}

interface Sum {
  schedules: number
  dots: number
  kills: number
  readonly ends: Record<string, number>
}

async function mutated(name: string, seeds: readonly number[]): Promise<{ sum: Sum; found: Found | undefined }> {
  const mutation = mutations[name]
  if (mutation === undefined) throw new Error(`no such mutation; there are: ${Object.keys(mutations).join('; ')}`)
  const copy = mutation.patches === undefined ? undefined : patched(mutation.patches)
  try {
    const { seen } = mutation
    const all = seen === undefined || seeds.length === 1 ? seeds : [seen, ...seeds]
    return await schedules(await loadCode(copy?.source ?? join(root, 'src')), mutation, all)
  } finally {
    copy?.forget()
  }
}

const { values } = parseArgs({
  options: {
    schedules: { type: 'string', default: '50000' },
    seed: { type: 'string', default: '1' },
    mutation: { type: 'string' },
    mutations: { type: 'boolean', default: false },
    weather: { type: 'string' },
  },
})
const weatherOf = (name: string | undefined): Mutation => {
  if (name !== undefined && !isWeather(name)) throw new Error(`no such weather: ${name}`)
  return name === undefined ? {} : { weather: name }
}
const seeds = Array.from({ length: Number(values.schedules) }, (_, n) => Number(values.seed) + n)
const began = performance.now()
const replay = (seed: number, name?: string) =>
  `npm run simulate -- --schedules 1 --seed ${seed}${name === undefined ? '' : ` --mutation '${name}'`}${values.weather === undefined ? '' : ` --weather ${values.weather}`}`

if (values.mutations) {
  for (const name of Object.keys(mutations)) {
    const { sum, found } = await mutated(name, seeds)
    if (found === undefined) {
      say(`MISSED ${name}: ${sum.schedules} schedules kept the promise`)
      process.exitCode = 1
    } else
      say(
        `caught ${name} after ${sum.schedules} schedules: ${found.verdict.breaches[0]}\n       ${replay(found.seed, name)}`,
      )
  }
} else {
  const { sum, found } =
    values.mutation === undefined
      ? await schedules(await loadCode(join(root, 'src')), weatherOf(values.weather), seeds)
      : await mutated(values.mutation, seeds)
  const ends = Object.entries(sum.ends)
    .map(([status, times]) => `${times} ${status}`)
    .join(', ')
  say(`${sum.schedules} schedules, ${sum.dots} final dots, ${sum.kills} kills; messages: ${ends}`)
  if (found !== undefined) {
    for (const words of found.verdict.breaches) say(`BREACH ${words}`)
    say(`replay: ${replay(found.seed, values.mutation)}`)
    process.exitCode = 1
  }
}
say(`${Math.round(performance.now() - began) / 1000} s`)
