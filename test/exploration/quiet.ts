// A quiet future: all live, every statement is answered, receivers take what comes, time passes, and an operator decides where one has to.
import { beyondSteps, nextTerm } from './beyond.ts'
import { nodeSteps, wantsLook, mayReap } from './node.ts'
import { endBreach, type Held } from './promise.ts'
import { nothing } from './scopes.ts'
import { nameOf, type State } from './state.ts'
import { claimSteps, flightSteps } from './worker.ts'
import type { Step, Visit, World } from './world.ts'

/** More steps than any message needs to its end. */
const stepsMost = 150

/** What goes wrong, and the way to it; undefined where every message ends. `known`: the names of states of which that is known. */
export function endsQuietly(world: World, from: State, known: Set<string>): readonly string[] | undefined {
  const held = heldIn(from)
  let state: State = { ...from, left: nothing }
  const way: string[] = []
  const names: string[] = []
  const been = new Set<string>()
  for (let n = 0; n < stepsMost; n++) {
    const name = `${nameOf(state)}${held.map(({ id, status }) => id + status).join()}`
    if (known.has(name)) break
    names.push(name)
    const step = nextStep(world, state, been.add(nameOf(state)))
    if (step === undefined) {
      const breach = endBreach(state, held) ?? (state.tables.outbound.size > 0 ? 'it has not ended' : undefined)
      if (breach !== undefined) return [...way, breach]
      for (const each of names) known.add(each)
      return undefined
    }
    way.push(step.words)
    if (step.breach !== undefined) return [...way, step.breach]
    state = { ...step.state, left: nothing }
    if (n === stepsMost - 1) return [...way.slice(0, 30), 'and so on, without an end']
  }
  for (const each of names) known.add(each)
  return undefined
}

function heldIn({ nodes, tables }: State): Held[] {
  const ends = nodes.flatMap(({ journal, flights }) => [
    ...journal.map(({ end }) => end),
    ...flights.flatMap(({ end }) => (end?.replied === true ? [end] : [])),
  ])
  return ends.flatMap(({ row: { id, epoch, token, status } }) => {
    const record = tables.messages.get(id)
    const row = tables.outbound.get(id)
    const armed = row?.armedEpoch ?? record?.armedEpoch
    const isIts = armed === epoch && (row?.token ?? record?.armedToken) === token
    return isIts && (status === 'sent' || status === 'failed') ? [{ id, status }] : []
  })
}

/** The first, in the order of a good day; nobody looks again at what he has seen (`been`). */
function nextStep(world: World, from: State, been: ReadonlySet<string>): Step | undefined {
  const first = (wanted: (words: string) => boolean, steps: (take: Visit) => void, anew = false) => {
    let found: Step | undefined
    world.wanted = (words) => found === undefined && wanted(words)
    steps((step) => {
      if (!anew || !been.has(nameOf(step.state))) found ??= step
    })
    world.wanted = undefined
    return found
  }
  const any = () => true
  if (from.underway.length > 0)
    return first(
      (words) => words.startsWith('it lands'),
      (take) => beyondSteps(world, from, take),
    )
  for (const node of from.nodes)
    if (node.stopping && node.flights.length === 0)
      return first(
        (words) => words.endsWith('has stopped'),
        (take) => nodeSteps(world, from, node, take),
      )
  for (const node of from.nodes) if (!node.alive) return first(any, (take) => nodeSteps(world, from, node, take))
  for (const node of from.nodes)
    for (const flight of node.flights) {
      const connects = ['claimed', 'ending', 'telling'].includes(flight.stage)
      if (connects && node.greeted !== from.server) continue
      const { stage, fate } = flight
      const isHeard = stage === 'dotted' && fate !== undefined && fate !== 'cut'
      const wanted = (words: string) => {
        if (stage === 'claimed') return / arms | writes the dot/.test(words)
        return !isHeard || words.includes(`hears ${fate}`)
      }
      return first(wanted, (take) => flightSteps(world, from, node, flight, take))
    }
  for (const node of from.nodes)
    if (wantsLook(from, node) || node.look !== undefined || node.greeted !== from.server) {
      const look = first(
        (words) => /compares|journal/.test(words),
        (take) => nodeSteps(world, from, node, take),
        true,
      )
      if (look !== undefined) return look
    }
  if (from.recovering !== undefined || from.tables.stops.has('fence') || from.tables.stops.has('pause')) {
    const asked = { ...from, left: { ...nothing, recovers: 1 } }
    return first(
      (words) => words.startsWith('recover --assume'),
      (take) => beyondSteps(world, asked, take),
    )
  }
  for (const node of from.nodes) {
    const claim = first(any, (take) => claimSteps(world, from, node, take))
    if (claim !== undefined) return claim
  }
  if (mayReap(from))
    for (const node of from.nodes) {
      const reap = first(
        (words) => words.endsWith('ran out'),
        (take) => nodeSteps(world, from, node, take),
      )
      if (reap !== undefined) return reap
    }
  if (from.tables.outbound.size === 0 || nextTerm(from) === Infinity) return undefined
  return first(any, (take) => beyondSteps(world, { ...from, left: { ...nothing, times: 1 } }, take))
}
