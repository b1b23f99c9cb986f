// What happens outside the nodes: time, statements that land late, somebody's suppression, a server that takes over, and an operator who
// decides (`posthorn recover`), one statement after the other.
import type { MessageId } from '../../src/domain/message.ts'
import { isFinal } from '../../src/domain/moves.ts'
import { freshTruth, truthOf } from './promise.ts'
import { copyTables, tablesOf, type Recovering, type State } from './state.ts'
import { answered } from './worker.ts'
import { longMs, use, type Visit, type World } from './world.ts'

export function beyondSteps(world: World, from: State, visit: Visit): void {
  const { left, tables } = from
  const change = (words: string, act: (state: State) => void) => world.step(from, words, act, visit)
  if (left.times > 0 && nextTerm(from) < Infinity) change(timeWords(from), (state) => timePasses(state))
  for (const [at, { words }] of from.underway.entries())
    change(`it lands: ${words.slice(0, words.indexOf('[') - 1)}`, (state) => lands(world, state, at))
  if (left.suppressions > 0)
    for (const { recipient, status } of tables.messages.values())
      if (!tables.suppressed.has(recipient) && !isFinal(status))
        change(`${recipient} is suppressed`, (state) => {
          use(state, 'suppressions')
          world.database.suppressed.add(recipient)
        })
  if (world.scope.acceptedLater === true && !from.truths.has('m2' as MessageId))
    change('m2 is accepted', (state) => {
      truthOf(state, 'm2' as MessageId)
      world.admit(2)
    })
  if (left.cancels > 0 && tables.outbound.size > 0)
    change('what waits is cancelled: its workspace is blocked, and to be removed', (state) => {
      use(state, 'cancels')
      world.ask('cancel-waiting', [])
    })
  if (left.again > 0)
    for (const { id, status } of tables.messages.values())
      if (status === 'failed' || status === 'delivery_unknown')
        change(`a person sends ${id} again`, (state) => sentAgain(world, state, id))
  if (left.clocks > 0)
    change("the database's clock is set back, before all that was", (state) => {
      use(state, 'clocks')
      state.clocksSet++
      state.now = -longestMs * state.clocksSet
    })
  if (left.copies > 0)
    change(world.scope.restored === true ? 'a backup is made' : 'a standby has all until here', (state) => {
      use(state, 'copies')
      state.kept = { at: state.now, tables: copyTables(tablesOf(world.database)) }
    })
  if (left.failovers > 0 && from.kept !== undefined)
    change(world.scope.restored === true ? 'the backup is put back' : 'the standby takes over', (state) =>
      takesOver(world, state),
    )
  operatorSteps(world, from, change)
}

function sentAgain(world: World, state: State, id: MessageId): void {
  use(state, 'again')
  const original = truthOf(state, id)
  // What a server lacks that took over, a person cannot know of.
  const lost = [...state.truths].some(([other, { follows }]) => follows === id && !world.database.messages.has(other))
  const isUnknown = world.database.messages.get(id)?.status === 'delivery_unknown'
  let as = `${id}'` as MessageId
  while (state.truths.has(as)) as = `${as}'` as MessageId
  if (!world.sendAgain(id, as)) return
  state.truths.set(as, freshTruth(id))
  if (isUnknown || lost) original.againUnknown++
}

/** Longer than all that happens. */
const longestMs = 100_000

export function nextTerm({ tables, now }: State): number {
  let next = Infinity
  for (const { dueAt, leaseUntil, expiresAt } of tables.outbound.values())
    for (const at of [dueAt, leaseUntil ?? 0, expiresAt]) if (at >= now && at < Math.min(next, longMs)) next = at
  return next
}

function timeWords({ tables, now }: State): string {
  const next = nextTerm({ tables, now } as State)
  const what = [...tables.outbound.values()].map(({ id, dueAt, leaseUntil, expiresAt }) =>
    leaseUntil === next
      ? `the lease of ${id} runs out`
      : dueAt === next
        ? `${id} is due again`
        : expiresAt === next
          ? `${id} expires`
          : '',
  )
  return what.filter((words) => words !== '').join(', ')
}

export function timePasses(state: State, uses = true): void {
  if (uses) use(state, 'times')
  const next = nextTerm({ ...state, now: state.now - 1 })
  state.now = Math.max(state.now, next + 1)
}

export function lands(world: World, state: State, at: number): void {
  const [under] = state.underway.splice(at, 1)
  if (under === undefined) return
  const before = copyTables(tablesOf(world.database))
  let rows: readonly object[] | undefined
  try {
    rows = under.run()
  } catch {
    Object.assign(world.database, before)
  }
  const { waiting } = under
  if (waiting !== undefined && rows !== undefined) answered(world, state, waiting.node, waiting, rows)
}

function takesOver(world: World, state: State): void {
  use(state, 'failovers')
  const { kept } = state
  if (kept === undefined) return
  const serverTimeline = world.database.serverTimeline + 1
  Object.assign(world.database, copyTables(kept.tables), { serverTimeline })
  if (world.scope.restored === true) {
    world.database.stops.delete('pause')
    world.database.stops.set('fence', { reason: 'restored', since: world.database.stoppedAt() })
  }
  state.lacksSince = Math.min(state.lacksSince ?? Infinity, kept.at)
  state.failovers++
  state.server++
  state.underway = []
  state.recovering = undefined
  // Their sessions have ended with the server.
  for (const node of state.nodes) {
    node.look = undefined
    if (world.slip === 'new connections are not compared' && node.greeted >= 0) node.greeted = state.server
  }
}

function operatorSteps(world: World, from: State, change: (words: string, act: (state: State) => void) => void): void {
  const { left, tables, recovering } = from
  if (recovering !== undefined) {
    const { words, act } = assumeSteps[recovering.step]
    return change(`recover --assume-sent-since: ${words}`, (state) => {
      if (state.recovering !== undefined) act(world, state, state.recovering)
    })
  }
  if (left.recovers === 0 || (!tables.stops.has('fence') && !tables.stops.has('pause'))) return
  change('recover --assume-sent-since: delivery is stopped', (state) => beginsToAssume(world, state))
  change('recover --resume', (state) => {
    use(state, 'recovers')
    resumes(world, state)
  })
}

export function beginsToAssume(world: World, state: State): void {
  state.left = { ...state.left, recovers: Math.max(0, state.left.recovers - 1) }
  world.ask('stop-by-operator', [])
  state.recovering = { since: state.lacksSince ?? 0, till: 0, step: 'till' }
}

export function resumes(world: World, state: State): void {
  world.ask('lift-fence', [])
  // It says so: what a server lacks may be sent once more.
  if (state.lacksSince !== undefined)
    for (const { id } of world.database.outbound.values()) truthOf(state, id).excused = true
  state.lacksSince = undefined
}

interface AssumeStep {
  readonly words: string
  readonly act: (world: World, state: State, recovering: Recovering) => void
}

/** As `assumeSentSince` and `liftFence` ask. */
export const assumeSteps: Readonly<Record<Recovering['step'], AssumeStep>> = {
  till: {
    words: 'it reads since when',
    act: (world, _, recovering) => {
      recovering.till = Math.min(...[...world.database.stops.values()].map(({ since }) => since))
      recovering.step = 'assume'
    },
  },
  assume: {
    words: 'what is chosen is assumed to be sent',
    act: (world, _, recovering) => {
      const values = [new Date(recovering.since), new Date(recovering.till)]
      if (world.tryToAsk('assume-sent', values) === undefined) world.breaks('the database refuses to assume')
      recovering.step = 'lift'
    },
  },
  lift: {
    words: 'delivery goes on',
    act: (world, state) => {
      if (world.tryToAsk('lift-fence', []) === undefined) return world.breaks('the database refuses to lift the fence')
      state.lacksSince = state.recovering = undefined
    },
  },
}
