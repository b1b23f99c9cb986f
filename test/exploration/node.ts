// What a node does besides its work: it dies and comes back, compares itself with the database, tells its journal, keeps leases and ends
// those that ran out. As fence.ts, replay.ts, heartbeat.ts and reaper.ts do it.
import { use, checkIn, identityOf, leaseMs, type Visit, type World } from './world.ts'
import type { Node, State } from './state.ts'

export function nodeSteps(world: World, from: State, node: Node, visit: Visit): void {
  const { name } = node
  const change = (words: string, act: (mine: Node, state: State) => void) =>
    world.step(
      from,
      `${name} ${words}`,
      (state) => {
        const mine = state.nodes.find((each) => each.name === name)
        if (mine !== undefined) act(mine, state)
      },
      visit,
    )
  if (!node.alive) return change('starts again', starts)
  deathSteps(from, node, change)
  stopSteps(from, node, change)
  lookSteps(world, from, node, change)
  if (node.greeted !== from.server && (node.admitted || node.flights.length > 0))
    change('compares itself with the database, on a new connection', (mine, state) => {
      if (!checkIn(world, mine)) mine.admitted = false
      mine.greeted = state.server
    })
  if (from.left.heartbeats > 0 && node.flights.length > 0)
    change('keeps its leases', (mine, state) => {
      use(state, 'heartbeats')
      const { flights } = mine
      const claims = [flights.map(({ id }) => id), flights.map(({ epoch }) => epoch), flights.map(({ token }) => token)]
      world.ask('heartbeat', [...claims, leaseMs])
    })
  if (!node.admitted || node.greeted !== from.server) return
  reapSteps(world, from, name, change)
  expirySteps(world, from, change)
  for (const claim of node.putOff)
    change(`makes ${claim.id} due, since somebody is there again`, (mine) => {
      mine.putOff = mine.putOff.filter((each) => each !== claim)
      world.ask('hasten-put-off', [[claim.id], [claim.epoch], [claim.token]])
    })
}

type Change = (words: string, act: (mine: Node, state: State) => void) => void

export function starts(node: Node): void {
  node.alive = true
  // Whose mark did not come to the disk is somebody new.
  if (node.known === undefined) node.born++
  node.wanted = node.known ?? { counter: 0, era: 0 }
  for (const line of node.journal) line.inherited = true
}

const dies = (node: Node): void => {
  node.alive = node.admitted = node.stopping = false
  node.look = undefined
  node.session = node.greeted = node.vouches = -1
  node.flights = []
  node.putOff = []
}

/** In peace: what is not armed is handed back, what is past its dot comes to its end (worker.ts). */
function stopSteps({ left }: State, node: Node, change: Change): void {
  if (left.stops > 0 && !node.stopping)
    change('is asked to stop', (mine, state) => {
      use(state, 'stops')
      mine.stopping = true
    })
  if (node.stopping && node.flights.length === 0) change('has stopped', dies)
}

function deathSteps({ left }: State, node: Node, change: Change): void {
  if (left.kills > 0)
    change('is killed', (mine, state) => {
      use(state, 'kills')
      dies(mine)
    })
  if (left.disks > 0 && (node.known !== undefined || node.journal.length > 0))
    change('is killed, and its disk is lost', (mine, state) => {
      use(state, 'disks')
      state.lostDisks++
      dies(mine)
      mine.known = undefined
      mine.journal = []
    })
}

const untold = (node: Node) => node.journal.filter(({ inherited }) => inherited)

export const wantsLook = ({ tables, server }: State, { admitted, session }: Node): boolean =>
  !admitted || session !== server || tables.stops.size > 0

function lookSteps(world: World, from: State, node: Node, change: Change): void {
  const { look } = node
  const tellsFirst = world.slip !== 'the journal is not told before the first claim'
  if (look === 'tell')
    change('tells its journal', (mine, state) => {
      const lines = untold(mine)
      if (world.tryToAsk('replay', [JSON.stringify(lines.map(({ end }) => end.row))]) === undefined)
        return world.breaks('the database refuses a journal')
      mine.journal = mine.journal.filter((line) => !lines.includes(line))
      looked(mine, state, true)
    })
  else if (look === 'forewarn')
    change('forewarns of its journal', (mine, state) => {
      const ends = untold(mine).filter(({ end }) => end.row.status !== 'retrying')
      world.tryToAsk('replay', [JSON.stringify(ends.map(({ end }) => end.row))])
      looked(mine, state, false)
    })
  else if (wantsLook(from, node)) {
    change('compares itself with the database', (mine, state) => {
      const fine = checkIn(world, mine)
      mine.session = mine.greeted = state.server
      if (tellsFirst && untold(mine).length > 0 && (fine || mine.known !== undefined))
        mine.look = fine ? 'tell' : 'forewarn'
      else looked(mine, state, fine)
    })
    if (from.left.unheard > 0)
      change('compares itself with the database, and hears no answer', (mine, state) => {
        use(state, 'unheard')
        const { known, wanted } = mine
        world.ask('check-in', [identityOf(mine), mine.name, known ? wanted.counter : null, known?.era ?? null, 0])
      })
  }
}

function looked(node: Node, state: State, fine: boolean): void {
  node.look = undefined
  node.admitted = fine
  if (fine) node.vouches = state.server
}

export const mayReap = ({ tables, now }: State): boolean =>
  [...tables.outbound.values()].some(({ leaseUntil }) => leaseUntil !== null && leaseUntil < now)

function expirySteps(world: World, { tables, now }: State, change: Change): void {
  const over = [...tables.outbound.values()].filter(
    ({ leaseUntil, expiresAt }) => leaseUntil === null && expiresAt <= now,
  )
  if (over.length > 0 && tables.stops.size === 0)
    change('fails what has expired in the queue', () => {
      world.ask('expire', [over.map(({ id }) => id)])
    })
}

function reapSteps(world: World, from: State, name: string, change: Change): void {
  const values = [world.scope.triesMax, 500, true, 'infinity']
  if (mayReap(from))
    change('ends the leases that ran out', () => {
      if (world.tryToAsk('reap', values) === undefined) world.breaks('the database refuses a reap')
    })
  if (from.left.late > 0 && [...from.tables.outbound.values()].some(({ leaseUntil }) => leaseUntil !== null))
    change('ends the leases that ran out: given up, and still under way', (_, state) => {
      use(state, 'late')
      state.underway.push(world.begun(`${name} reaps`, 'reap', values))
    })
}
