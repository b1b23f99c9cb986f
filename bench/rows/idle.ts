// What Posthorn takes while nobody uses it, and how long a second start takes. All roles, as `npm start` runs them; PostgreSQL is not counted.
import * as fs from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { familyOf } from '../cpu.ts'
import type { Options } from '../options.ts'
import { folderIn } from '../processes.ts'
import { installation } from '../service.ts'
import type { Row } from '../table.ts'

export interface IdleRuns {
  readonly startSeconds: readonly number[]
  readonly megabytes: readonly number[]
}

export async function runIdle(options: Options, temporary: string): Promise<IdleRuns> {
  const { pairs, rows, settleMs, tell } = options
  const home = installation(folderIn(temporary, 'posthorn-idle'))
  await (await home.serve()).stop() // the first one makes the database
  const startSeconds: number[] = []
  const megabytes: number[] = []
  for (let turn = 1; turn <= pairs; turn++) {
    const service = await home.serve()
    startSeconds.push(service.startMs / 1000)
    // Idle memory hardly differs from start to start, and each look takes ten seconds.
    if (rows.has('memory') && turn <= 3) {
      await setTimeout(settleMs)
      megabytes.push(memoryOf(service.pids))
      tell(`memory ${turn}: ${megabytes.at(-1)?.toFixed(1)} MB`)
    }
    tell(`start ${turn}/${pairs}: ${startSeconds.at(-1)?.toFixed(2)} s`)
    await service.stop()
    if (!rows.has('start') && turn === 3) break
  }
  return { startSeconds, megabytes }
}

/** Proportional set size: pages that two of our processes share are counted once. In megabytes of a million bytes. */
export function memoryOf(pids: readonly number[]): number {
  const kilobytes = familyOf(pids)
    .filter(({ name }) => name.startsWith('node'))
    .map(({ pid }) => Number(/^Pss: +(\d+) kB/m.exec(fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0))
  return (kilobytes.reduce((sum, each) => sum + each, 0) * 1024) / 1e6
}

export function idleRows({ startSeconds, megabytes }: IdleRuns, wanted: ReadonlySet<string>): Row[] {
  const memory: Row = {
    name: 'idle memory without PostgreSQL',
    ours: megabytes,
    unit: 'MB',
    better: 'less',
    must: 200,
    aim: 120,
  }
  const start: Row = {
    name: 'second start to `posthorn ready`',
    ours: startSeconds,
    unit: 's',
    better: 'less',
    must: 3,
    aim: 1.5,
  }
  return [...(wanted.has('memory') ? [memory] : []), ...(wanted.has('start') ? [start] : [])]
}
