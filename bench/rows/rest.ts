// REST acceptance: Posthorn with the role api alone, a transaction per request, and Fastify without a database, in turn.
import { shares } from '../cpu.ts'
import { connections, load, manyConnections } from '../load.ts'
import type { Measured, Target } from '../load.ts'
import type { Options } from '../options.ts'
import { startInMemory, startNaive } from '../peers/web-peers.ts'
import { folderIn } from '../processes.ts'
import { installation, makeSenders } from '../service.ts'
import { whyUnhealthy } from '../health.ts'
import type { Calibration } from '../health.ts'
import { usagesOf } from '../table.ts'
import type { Row } from '../table.ts'

interface Sides {
  readonly ours: readonly Measured[]
  readonly naive: readonly Measured[]
  readonly inMemory: readonly Measured[]
}
export interface RestRuns {
  /** At `manyConnections`. */
  readonly many: Sides
  /** At `connections`. */
  readonly few: Sides
}

export async function runRest({ pairs, seconds, tell }: Options, temporary: string): Promise<RestRuns> {
  const home = installation(folderIn(temporary, 'posthorn-rest'))
  const service = await home.serve({ POSTHORN_ROLES: 'api' })
  const ours: Target = { ...service, senders: await makeSenders(home, 4) }
  const inMemory = await startInMemory(temporary)
  const naive = await startNaive(temporary)
  const sides = () => ({ ours: [] as Measured[], naive: [] as Measured[], inMemory: [] as Measured[] })
  const runs = { many: sides(), few: sides() }
  // What is compiled while it runs, caches and connections: not measured.
  for (const target of [inMemory, naive, ours]) await load(target, Math.min(3, seconds))
  for (let pair = 1; pair <= pairs; pair++) {
    for (const [which, open] of [
      ['few', connections],
      ['many', manyConnections],
    ] as const)
      for (const [name, target] of [
        ['inMemory', inMemory],
        ['naive', naive],
        ['ours', ours],
      ] as const) {
        const measured = await load(target, seconds, open)
        runs[which][name].push(measured)
        const { perSecond, p99Ms, usage } = measured
        tell(
          `REST ${pair}/${pairs} ${target.name}, ${open} connections: ${Math.round(perSecond)}/s, p99 ${p99Ms.toFixed(1)} ms; ${shares(usage)}`,
        )
      }
  }
  for (const each of [service, naive, inMemory]) await each.stop()
  return runs
}

export function restRows({ many, few }: RestRuns, calibration: Calibration): Row[] {
  const rates = (runs: readonly Measured[]): number[] => runs.map(({ perSecond }) => perSecond)
  const tails = (runs: readonly Measured[]): number[] => runs.map(({ p99Ms }) => p99Ms)
  const naiveInvalid = whyUnhealthy('naive', rates(many.naive), calibration)
  const memoryInvalid = whyUnhealthy('inMemory', rates(many.inMemory), calibration)
  const perTransaction = 'a transaction per request'
  const invalid = (why: string | undefined) => (why === undefined ? {} : { invalid: why })
  return [
    {
      name: `REST acceptance, durable, ${manyConnections} connections`,
      ours: rates(many.ours),
      unit: '/s',
      peer: { name: perTransaction, figures: rates(many.naive) },
      better: 'more',
      must: 3,
      aim: 4.5,
      ...usagesOf(many.ours, many.naive),
      ...invalid(naiveInvalid),
    },
    {
      name: `REST acceptance, durable, ${manyConnections} connections`,
      ours: rates(many.ours),
      unit: '/s',
      peer: { name: 'in-memory Fastify', figures: rates(many.inMemory) },
      better: 'more',
      must: 0.4,
      aim: 0.6,
      ...usagesOf(many.ours, many.inMemory),
      ...invalid(memoryInvalid),
    },
    {
      name: `REST p99 at ${connections} connections`,
      ours: tails(few.ours),
      unit: 'ms',
      peer: { name: perTransaction, figures: tails(few.naive) },
      better: 'less',
      must: 0.6,
      aim: 0.35,
      ...usagesOf(few.ours, few.naive),
      ...invalid(naiveInvalid),
    },
    {
      name: `REST acceptance, durable, ${connections} connections`,
      ours: rates(few.ours),
      unit: '/s',
      peer: { name: perTransaction, figures: rates(few.naive) },
      better: 'more',
      ...usagesOf(few.ours, few.naive),
      ...invalid(naiveInvalid),
    },
  ]
}
