// The database's model, lent to one state after the other; what it answers, and what of it breaks the promise.
import type { MessageId } from '../../src/domain/message.ts'
import { ModelDatabase, type Flaw } from '../simulation/model-database.ts'
import { dotBreach, moveBreach, stateBreach, truthOf } from './promise.ts'
import type { Budgets, Scope, Slip } from './scopes.ts'
import { nothing } from './scopes.ts'
import { copyState, copyTables, tablesOf, type Fate, type Mark, type Node, type State, type Underway } from './state.ts'

const flaws = new Set<string>([
  'reaper without conditions',
  'finish without epoch',
  'late proof without epoch',
  'suppression before lock',
  'old row revived',
  'arm without epoch',
  'no pause after a failover',
  'what is under way is not assumed to be sent',
  'what may have gone early is spared',
  'a failure counts though nobody has decided',
  'cancelled behind a failover that nobody has noticed',
  'cancelled though somebody has it',
  'sent again without its key',
  'a stop is as old as its clock says',
] satisfies readonly (Flaw & Slip)[])
const isFlaw = (slip: Slip): slip is Flaw & Slip => flaws.has(slip)

/** Longer than all that happens in a state's past, step by step, and shorter than a lease is long. */
export const leaseMs = 1_000
/** Never. */
export const longMs = 1e12

export interface Step {
  readonly words: string
  readonly state: State
  readonly breach: string | undefined
}

/** Hears of each step that can be made. */
export type Visit = (step: Step) => void

export class World {
  readonly scope: Scope
  readonly slip: Slip | undefined
  readonly database: ModelDatabase
  /** The state to which the database is lent. */
  state: State
  /** Which steps are made; left out: all. */
  wanted: ((words: string) => boolean) | undefined
  #breach: string | undefined

  constructor(scope: Scope, slip: Slip | undefined) {
    this.scope = scope
    this.slip = slip
    const flaw = slip !== undefined && isFlaw(slip) ? slip : undefined
    this.database = new ModelDatabase({
      now: () => this.state.now,
      // Of a message each epoch of each server is another one.
      token: () => `s${this.state.server}`,
      isVouchedFor: () => this.state.nodes.some(({ alive, vouches }) => alive && vouches === this.state.server),
      sender: {},
      flaw,
    })
    this.database.onArmed = (row, record) => {
      if (this.database.suppressed.has(record.recipient)) truthOf(this.state, row.id).armedSuppressed = true
    }
    this.database.onMoved = (record, from, row) => {
      const breach = moveBreach(this.state, record, from, row)
      if (breach !== undefined) this.breaks(`${record.id}: ${breach}`)
    }
    this.state = this.#first()
  }

  #first(): State {
    const { scope } = this
    const state: State = {
      now: 0,
      tables: tablesOf(this.database),
      nodes: ['A', 'B'].slice(0, scope.nodes).map(newNode),
      underway: [],
      kept: undefined,
      server: 0,
      lacksSince: undefined,
      failovers: 0,
      clocksSet: 0,
      lostDisks: 0,
      recovering: undefined,
      truths: new Map(),
      left: { ...nothing, ...scope.left },
    }
    this.state = state
    // Each has begun on an empty database.
    for (const node of state.nodes) {
      checkIn(this, node)
      node.admitted = true
      node.session = node.greeted = node.vouches = state.server
    }
    for (let n = 1; n <= (scope.acceptedLater === true ? 1 : scope.messages); n++) this.admit(n)
    return { ...state, tables: tablesOf(this.database) }
  }

  admit(n: number): void {
    this.database.admit(messageId(n), `m${n}@d${n}.example`, this.scope.shortLived === true ? leaseMs + 500 : longMs)
  }

  sendAgain(id: MessageId, as: MessageId): boolean {
    return this.database.sendAgain(id, as, longMs)
  }

  breaks(words: string): void {
    this.#breach ??= words
  }

  /** One step from there. A refusal of the database rolls back, and is for `act` to bear. */
  step(from: State, words: string, act: (state: State) => void, visit: Visit): void {
    if (this.wanted?.(words) === false) return
    const state = copyState(from)
    state.now++
    this.state = state
    this.#breach = undefined
    Object.assign(this.database, state.tables)
    act(state)
    state.tables = tablesOf(this.database)
    const breach = this.#breach ?? stateBreach(state)
    visit({ words, state, breach })
  }

  ask(name: string, values: readonly unknown[]): readonly object[] {
    return this.database.begin(name, values)()
  }

  /** Undefined where the database has refused it, and rolled it back. */
  tryToAsk(name: string, values: readonly unknown[]): readonly object[] | undefined {
    const before = copyTables(tablesOf(this.database))
    try {
      return this.ask(name, values)
    } catch {
      Object.assign(this.database, before)
      return undefined
    }
  }

  /** Asked, and on its way. */
  begun(words: string, name: string, values: readonly unknown[]): Underway {
    const run = this.database.begin(name, values)
    const looksEarly = this.slip === 'suppression before lock' || this.slip === 'reaper without conditions'
    const { outbound, suppressed } = this.database
    const rows = [...outbound.values()].map((row) => ({
      ...row,
      isOver: (row.leaseUntil ?? Infinity) < this.state.now,
    }))
    const seen = looksEarly ? JSON.stringify([...suppressed, ...rows]) : ''
    return { words: `${words} ${JSON.stringify(values)}`, run, seen }
  }

  dot(id: MessageId, fate: Fate): void {
    const breach = dotBreach(this.state, id)
    if (breach !== undefined) this.breaks(`${id}: ${breach}`)
    const truth = truthOf(this.state, id)
    truth.unproven++
    if (fate === 250) truth.copies++
  }
}

export const use = (state: State, what: keyof Budgets): void => {
  state.left = { ...state.left, [what]: state.left[what] - 1 }
}

export const messageId = (n: number) => `m${n}` as MessageId

const newNode = (name: string): Node => ({
  name,
  born: 0,
  alive: true,
  admitted: false,
  look: undefined,
  stopping: false,
  session: -1,
  greeted: -1,
  vouches: -1,
  wanted: { counter: 0, era: 0 },
  known: undefined,
  journal: [],
  flights: [],
  putOff: [],
})

export const identityOf = ({ name, born }: Node): string => `${name}${born}`

/** As `checkInNode`, and what `agree` makes of its answer. */
export function checkIn(world: World, node: Node): boolean {
  const { known, wanted } = node
  const values = [identityOf(node), node.name, known ? wanted.counter : null, known?.era ?? null, longMs]
  const [answer] = world.ask('check-in', values) as [Mark & { readonly trouble: string | null }]
  if (answer.trouble === null || known === undefined) agree(node, answer)
  return answer.trouble === null
}

/** As `makeMark`: it never goes back. */
export function agree(node: Node, { counter, era }: { readonly counter: number; readonly era: number }): void {
  const { wanted } = node
  if (era > wanted.era || (era === wanted.era && counter > wanted.counter)) node.wanted = { counter, era }
  node.known = node.wanted
}
