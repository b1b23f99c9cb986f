// What a node's worker does with a claim, one statement, one write or one octet after the other: as deliver.ts, job.ts, conversation.ts and
// unheard.ts do it, at any time and in any order with all others.
import type { MessageId } from '../../src/domain/message.ts'
import { endOf, type Seen } from './ends.ts'
import { truthOf } from './promise.ts'
import type { End, Fate, Flight, Node, State } from './state.ts'
import { identityOf, leaseMs, use, type Visit, type World } from './world.ts'

type Claimed = Pick<Flight, 'id' | 'epoch' | 'token'>
const same = (one: Claimed) => (other: Claimed) =>
  one.id === other.id && one.epoch === other.epoch && one.token === other.token

const nodeOf = (state: State, { name }: Node): Node => {
  const node = state.nodes.find((each) => each.name === name)
  if (node === undefined) throw new Error(`there is no ${name}`)
  return node
}
const leave = (node: Node, flight: Flight): void => {
  node.flights = node.flights.filter((each) => each !== flight)
}

/** A statement that its asker gives up: it lands later, or now without being heard. */
function later(world: World, from: State, node: Node, flight: Flight | undefined, asked: Asked, visit: Visit): void {
  const { words, name, values } = asked
  const giveUp = (state: State) => {
    const mine = nodeOf(state, node)
    asked.unanswered(state, mine, flight && mine.flights.find(same(flight)))
  }
  if (from.left.unheard > 0) {
    world.step(
      from,
      `${words}: done, and not heard`,
      (state) => {
        use(state, 'unheard')
        world.tryToAsk(name, values())
        giveUp(state)
      },
      visit,
    )
  }
  if (from.left.late > 0)
    world.step(
      from,
      `${words}: given up, and still under way`,
      (state) => {
        use(state, 'late')
        state.underway.push(world.begun(words, name, values()))
        giveUp(state)
      },
      visit,
    )
}

interface Asked {
  readonly words: string
  readonly name: string
  readonly values: () => readonly unknown[]
  readonly unanswered: (state: State, node: Node, flight: Flight | undefined) => void
}

export function claimSteps(world: World, from: State, node: Node, visit: Visit): void {
  const { tables, now } = from
  if (tables.stops.size > 0 || node.stopping || !node.admitted || node.greeted !== from.server) return
  for (const row of tables.outbound.values()) {
    if (row.leaseUntil !== null || row.dueAt > now) continue
    // Of one destination each.
    const others = [...tables.outbound.values()].filter(({ id }) => id !== row.id)
    const rooms = Object.fromEntries(others.map(({ destination }) => [destination, 0]))
    const values = () => [null, 0, [], 1, '', 0, JSON.stringify(rooms), 1, leaseMs, node.name, '-infinity']
    const words = `${node.name} claims ${row.id}`
    type Row = { id: MessageId | undefined; epoch: number; token: string; attempt: number; verdict: string | null }
    world.step(
      from,
      words,
      (state) => {
        for (const { id, epoch, token, attempt, verdict } of world.ask('claim', values()) as Row[])
          if (id !== undefined && verdict === null)
            nodeOf(state, node).flights.push({
              id,
              epoch,
              token,
              attempt,
              stage: 'claimed',
              counter: 0,
              fate: undefined,
              end: undefined,
              journalled: false,
            })
      },
      visit,
    )
    later(world, from, node, undefined, { words, name: 'claim', values, unanswered: () => undefined }, visit)
  }
}

export function flightSteps(world: World, from: State, node: Node, flight: Flight, visit: Visit): void {
  const change = (words: string, act: (state: State, mine: Node, own: Flight) => void) =>
    world.step(
      from,
      `${node.name} ${words}`,
      (state) => {
        const mine = nodeOf(state, node)
        const own = mine.flights.find(same(flight))
        if (own !== undefined) act(state, mine, own)
      },
      visit,
    )
  const end = (own: Flight, what: Seen) => {
    own.stage = 'ending'
    own.fate = undefined
    own.end = slipped(world, endOf(own, what, world.scope.triesMax))
  }
  const its = flight.id
  const refusals = world.scope.refusals === true
  switch (flight.stage) {
    case 'claimed':
      return claimedSteps()
    case 'arming':
      return
    case 'counted':
      change(`has its mark on the disk, for ${its}`, (_, mine, own) => {
        mine.known = mine.wanted
        own.stage = 'armed'
      })
      if (world.slip === 'the dot does not wait for the mark') dotSteps()
      return
    case 'armed':
      dotSteps()
      change(`writes no dot of ${its}: it is too late`, (_, __, own) => end(own, 'armed too late'))
      if (refusals)
        change(`hears 550 to the content of ${its}`, (_, __, own) => end(own, 'armed, and then 550 to the content'))
      return
    case 'dotted': {
      const { fate } = flight
      change(`hears nothing to its dot of ${its}`, (_, __, own) => end(own, 'no reply to the dot'))
      if (fate !== 'cut' && fate !== undefined)
        change(`hears ${fate} to its dot of ${its}`, (state, _, own) => {
          if (fate !== 250) truthOf(state, own.id).unproven--
          end(own, `${fate} to the dot`)
        })
      return
    }
    case 'ending':
      return endingSteps()
    case 'telling':
      return tellingSteps()
  }

  function claimedSteps(): void {
    change(`does not get through with ${its}`, (_, __, own) => end(own, 'the line is cut in the content'))
    if (refusals)
      for (const said of ['450 to RCPT', '550 to RCPT'] as const)
        change(`hears ${said} of ${its}`, (_, __, own) => end(own, said))
    if (world.scope.outOfReach === true) change(`finds nobody for ${its}`, (_, __, own) => end(own, 'nobody is found'))
    if (from.tables.stops.size > 0 || node.stopping)
      change(`hands ${its} back`, (_, __, own) => end(own, 'handed back'))
    if (world.slip === 'no arm') dotSteps()
    if (node.greeted !== from.server) return
    if (world.slip === 'arm after the dot') return dotSteps()
    const words = `${node.name} arms ${its}`
    const key = from.tables.messages.get(flight.id)?.recipient ?? ''
    const values = () => {
      const { id, epoch, token } = flight
      return [[id], [epoch], [token], [key], identityOf(node), nodeOf(world.state, node).wanted.counter]
    }
    world.step(
      from,
      words,
      (state) => {
        const mine = nodeOf(state, node)
        const own = mine.flights.find(same(flight))
        if (own !== undefined) armed(world, mine, own, world.ask('arm', values()) as ArmRow[])
      },
      visit,
    )
    const unanswered = (_: State, __: Node, own: Flight | undefined) => {
      if (own === undefined) return
      if (world.slip === 'unknown arm taken as an arm') own.stage = 'armed'
      else end(own, 'an arm without an answer')
    }
    if (from.left.unheard > 0)
      world.step(
        from,
        `${words}: lost on its way`,
        (state) => {
          use(state, 'unheard')
          const mine = nodeOf(state, node)
          unanswered(state, mine, mine.flights.find(same(flight)))
        },
        visit,
      )
    later(world, from, node, flight, { words, name: 'arm', values, unanswered }, visit)
    if (from.left.late > 0)
      world.step(
        from,
        `${words}: held up`,
        (state) => {
          use(state, 'late')
          const mine = nodeOf(state, node)
          const own = mine.flights.find(same(flight))
          if (own !== undefined) own.stage = 'arming'
          const { id, epoch, token } = flight
          state.underway.push({
            ...world.begun(words, 'arm', values()),
            waiting: { node: node.name, id, epoch, token },
          })
        },
        visit,
      )
  }

  function dotSteps(): void {
    const fates: readonly Fate[] = refusals ? [250, 450, 550, 'cut'] : [250]
    for (const fate of fates) {
      const becomes = fate === 'cut' ? 'the line is cut before it' : `the receiver says ${fate}`
      change(`writes the dot of ${its}: ${becomes}`, (_, __, own) => {
        world.dot(own.id, fate)
        own.stage = 'dotted'
        own.fate = fate
        if (world.slip === 'arm after the dot')
          world.tryToAsk('arm', [[own.id], [own.epoch], [own.token], [''], identityOf(node), 0])
      })
    }
  }

  function endingSteps(): void {
    if (node.greeted !== from.server && world.slip !== 'ends are told on a connection that was not compared') return
    const ending = flight.end as End
    const words = `tells how ${its} ended (${ending.name})`
    const values = () => [JSON.stringify([ending.row]), [flight.id]]
    change(words, (_, mine, own) => {
      const rows = world.tryToAsk('finish', values()) as readonly Claimed[] | undefined
      if (rows === undefined) return leaveToOthers(mine, own)
      const done = rows.some((row) => row.id === own.id && row.epoch === own.epoch)
      if (!done && ending.replied) own.stage = 'telling'
      else heard(mine, own)
      if (done && ending.outOfReach === true) mine.putOff.push({ id: own.id, epoch: own.epoch, token: own.token })
    })
    const asked = { words: `${node.name} ${words}`, name: 'finish', values, unanswered: () => undefined }
    later(world, from, node, flight, asked, visit)
    if (ending.replied && !flight.journalled)
      change(`writes into its journal how ${its} ended (${ending.name})`, (_, mine, own) => keep(mine, own))
    if (node.stopping)
      change(`leaves to others how ${its} ended (${ending.name})`, (_, mine, own) => leaveToOthers(mine, own))
  }

  function tellingSteps(): void {
    if (node.greeted !== from.server) return
    const ending = flight.end as End
    const values = () => [JSON.stringify([ending.row])]
    const words = `tells it once more, as out of a journal (${its}, ${ending.name})`
    change(words, (_, mine, own) => {
      if (world.tryToAsk('replay', values()) === undefined) own.stage = 'ending'
      else heard(mine, own)
    })
    const unanswered = (_: State, __: Node, own: Flight | undefined) => {
      if (own !== undefined) own.stage = 'ending'
    }
    later(world, from, node, flight, { words: `${node.name} ${words}`, name: 'replay', values, unanswered }, visit)
  }
}

const keep = (node: Node, flight: Flight): void => {
  node.journal.push({ end: flight.end as End, inherited: false })
  flight.journalled = true
}

/** The database refuses to write it. */
function leaveToOthers(node: Node, flight: Flight): void {
  if (flight.end?.replied === true && !flight.journalled) keep(node, flight)
  leave(node, flight)
}

function heard(node: Node, flight: Flight): void {
  node.journal = node.journal.filter(({ end, inherited }) => inherited || !same(flight)(end.row))
  leave(node, flight)
}

export interface ArmRow {
  readonly id: MessageId
  readonly epoch: number
  readonly answer: 'armed' | 'halted' | 'suppressed' | 'expired'
  readonly counter: number | null
}

export function armed(world: World, node: Node, flight: Flight, rows: readonly ArmRow[]): void {
  const row = rows.find(({ id, epoch }) => id === flight.id && epoch === flight.epoch)
  if (row === undefined && world.slip === 'zero rows taken as an arm') flight.stage = 'armed'
  else if (row === undefined) leave(node, flight)
  else if (row.answer === 'armed') {
    flight.stage = 'counted'
    const { era, counter } = node.wanted
    node.wanted = { era, counter: Math.max(counter, row.counter ?? 0) }
  } else {
    flight.stage = 'ending'
    flight.end = endOf(flight, row.answer, world.scope.triesMax)
  }
}

function slipped(world: World, end: End): End {
  if (end.name !== 'no reply to the dot') return end
  const again = { ...end.row, status: 'retrying', delay_ms: 1, uses_try: true } as const
  if (world.slip === 'disarm after the dot') return { ...end, row: { ...again, evidence: 'not_written' } }
  if (world.slip === 'retry after a lost reply') return { ...end, row: { ...again, evidence: 'eod_4xx' } }
  return end
}

/** What was held up has its locks, and its asker the answer. */
export function answered(world: World, state: State, name: string, claim: Claimed, rows: readonly object[]): void {
  const node = state.nodes.find((each) => each.name === name)
  const flight = node?.flights.find((each) => each.stage === 'arming' && same(claim)(each))
  if (node !== undefined && flight !== undefined) armed(world, node, flight, rows as ArmRow[])
}
