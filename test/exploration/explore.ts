// npm run explore -- [--scope NAME] [--depth N] [--states N] [--slip NAME | --slips]: explores each scope to its end, or so far. A way that
// breaks the promise is told step by step. With --slips each known way to get the protocol wrong is tried until it is seen.
import { parseArgs } from 'node:util'
import { isSlip, scopes, slips, type Scope, type Slip } from './scopes.ts'
import { explore, type Explored } from './search.ts'

const { values } = parseArgs({
  options: {
    scope: { type: 'string' },
    depth: { type: 'string', default: 'Infinity' },
    states: { type: 'string', default: 'Infinity' },
    slip: { type: 'string' },
    slips: { type: 'boolean', default: false },
  },
})
const say = (words: string) => process.stdout.write(`${words}\n`)
const bounds = { depthMost: Number(values.depth), statesMost: Number(values.states) }

function tell(name: string, { states, steps, depth, whole, breach }: Explored, ms: number): void {
  const far = breach !== undefined ? 'BREACH' : whole ? 'all of it' : 'not all of it'
  say(`${name}: ${states} states, ${steps} steps, ${depth} deep, ${far}; ${(ms / 1000).toFixed(1)} s of processor`)
  for (const [at, words] of (breach ?? []).entries()) say(`  ${at + 1}. ${words}`)
}

function run(name: string, scope: Scope, slip?: Slip): Explored {
  const before = process.cpuUsage()
  const explored = explore(scope, slip, bounds)
  tell(name, explored, process.cpuUsage(before).user / 1000)
  return explored
}

if (values.slip !== undefined || values.slips) {
  const asked = values.slip === undefined ? Object.keys(slips) : [values.slip]
  for (const name of asked) {
    if (!isSlip(name)) throw new Error(`no such slip; there are: ${Object.keys(slips).join('; ')}`)
    if (run(name, slips[name], name).breach === undefined) {
      say(`MISSED ${name}`)
      process.exitCode = 1
    }
  }
} else {
  const asked = Object.entries(scopes).filter(([name]) => values.scope === undefined || values.scope === name)
  if (asked.length === 0) throw new Error(`no such scope; there are: ${Object.keys(scopes).join('; ')}`)
  for (const [name, scope] of asked)
    if (run(`${name} (${scope.says})`, scope).breach !== undefined) process.exitCode = 1
}
