// From the first state every step of everybody, and from each state that is new the same again, breadth first: so what is found first is a
// shortest way to it. And from each of them a quiet future, in which everything goes well from there on, must end every message.
import { beyondSteps } from './beyond.ts'
import { nodeSteps } from './node.ts'
import { endsQuietly } from './quiet.ts'
import type { Scope, Slip } from './scopes.ts'
import { nameOf, type State } from './state.ts'
import { claimSteps, flightSteps } from './worker.ts'
import { World, type Visit } from './world.ts'

export interface Explored {
  readonly states: number
  readonly steps: number
  /** Of the longest of the shortest ways. */
  readonly depth: number
  /** Everything was seen. */
  readonly whole: boolean
  /** The way to it, and what is wrong there. */
  readonly breach: readonly string[] | undefined
}

export interface Bounds {
  readonly depthMost?: number
  readonly statesMost?: number
  readonly heard?: (depth: number, states: number) => void
}

interface Way {
  readonly words: string
  readonly before: Way | undefined
}

export function explore(scope: Scope, slip: Slip | undefined, bounds: Bounds = {}): Explored {
  const { depthMost = Infinity, statesMost = Infinity, heard } = bounds
  const world = new World(scope, slip)
  const known = new Set<string>([nameOf(world.state)])
  const quiet = new Set<string>()
  let steps = 0
  let breach: readonly string[] | undefined
  let front: { readonly state: State; readonly way: Way | undefined }[] = [{ state: world.state, way: undefined }]
  let depth = 0
  for (; front.length > 0 && depth < depthMost && known.size < statesMost; depth++) {
    const next: typeof front = []
    for (const { state, way } of front) {
      allSteps(world, state, ({ words, state: then, breach: wrong }) => {
        steps++
        if (breach !== undefined) return
        const thither = { words, before: way }
        if (wrong !== undefined) return void (breach = [...wayTo(thither), wrong])
        const name = nameOf(then)
        if (known.has(name)) return
        known.add(name)
        const unquiet = endsQuietly(world, then, quiet)
        if (unquiet !== undefined) breach = [...wayTo(thither), 'and from there on all goes well:', ...unquiet]
        if (!isOver(then)) next.push({ state: then, way: thither })
      })
      if (breach !== undefined) return { states: known.size, steps, depth: depth + 1, whole: false, breach }
      if (known.size >= statesMost) break
    }
    heard?.(depth + 1, known.size)
    front = next
  }
  return { states: known.size, steps, depth, whole: front.length === 0, breach }
}

function allSteps(world: World, from: State, visit: Visit): void {
  for (const node of from.nodes) {
    nodeSteps(world, from, node, visit)
    if (!node.alive) continue
    claimSteps(world, from, node, visit)
    for (const flight of node.flights) flightSteps(world, from, node, flight, visit)
  }
  beyondSteps(world, from, visit)
}

/** Nothing that is left to happen touches a message. */
const isOver = ({ tables, nodes, underway, kept, left }: State): boolean =>
  tables.outbound.size === 0 &&
  underway.length === 0 &&
  nodes.every(({ flights, journal }) => flights.length === 0 && journal.length === 0) &&
  left.again === 0 &&
  (left.failovers === 0 || (kept === undefined && left.copies === 0))

function wayTo(way: Way | undefined): string[] {
  const words: string[] = []
  for (let at = way; at !== undefined; at = at.before) words.push(at.words)
  return words.toReversed()
}
