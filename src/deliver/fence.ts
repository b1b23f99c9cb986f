// The gate of delivery on this node (delivery-semantics, restore fence): shut until the node has compared itself with the database and told it
// what its journal holds, shut again while anything stops delivery anywhere. The database heeds the same stops by itself; the gate is there
// so that work under way is given up at once, and so that the operator is told.
import { lifecycle, type Service } from '../base/service.ts'
import type { Log } from '../base/log.ts'
import { limits } from '../config.ts'
import { causeOfStop, type OwnStop } from '../domain/delivery-stop.ts'
import type { Ask } from '../store/database.ts'
import {
  checkInNode,
  knowsMark,
  readStops,
  vouchFor,
  vouchNoMoreFor,
  type CheckIn,
  type DeliveryStop,
} from '../store/fence.ts'
import type { Journal } from './journal.ts'
import type { MarkRecord, NodeFile } from './mark.ts'
import { makeReplay } from './replay.ts'

/** What one seat of the data folder holds. */
export interface NodeState {
  readonly mark: NodeFile
  readonly journal: Journal
}

export interface FenceTools {
  readonly own: NodeState
  /** Takes what processes without a successor have left by now: checked and told as our own, then let go. */
  readonly left: () => Promise<readonly (NodeState & { release(): Promise<void> })[]>
  /** What the marks of the other seats say, also of those that somebody holds. */
  readonly beside: () => Promise<readonly MarkRecord[]>
  /** This node's name, for people. */
  readonly name: string
  readonly log: Log
  /** Hears of stops, on a session that lasts. */
  readonly listen: (heard: (ask: Ask) => void) => { stop(): Promise<void> }
}

export interface Gate {
  /** Claims may be made, and dots written. */
  isOpen(): boolean
  /** This is the database that we knew, so its rows can be believed. */
  knowsDatabase(): boolean
  /** Called after each change. */
  onChange(changed: () => void): void
}

export interface Fence extends Service, Gate {
  /** For every new connection that claims or arms: it may lead to another server than the last one did. */
  readonly greet: (ask: Ask) => Promise<void>
  /** Why delivery stands still; empty while the first look is still to come. */
  readonly stops: readonly DeliveryStop[]
  /** Why this node alone stands still, for its operator: others may deliver meanwhile. */
  readonly ownStop: OwnStop | undefined
}

export function makeFence(tools: FenceTools): Fence {
  const { own, log } = tools
  const replay = makeReplay(log)
  let stops: readonly DeliveryStop[] = []
  /** This node has shown that the database is not behind it, and its journals are told. */
  let admitted = false
  /** The last look at what comes before the first claim came to nothing. */
  let lookFailed = false
  let told = 'nothing'
  /** This machine's disk does not take the mark. No dot may be written here, so nothing is claimed, nor any host asked in vain; other nodes go on. */
  let markless = false
  let left: Awaited<ReturnType<FenceTools['left']>> = []
  let vouchedOn: Ask | undefined
  let saidUnknown = false
  const listeners: (() => void)[] = []
  let turn: Promise<void> = Promise.resolve()

  /** One comparison at a time: what one of them agrees on, the next one goes by. */
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const done = turn.then(work)
    turn = done.catch(() => undefined)
    return done
  }

  const checkIn = async (ask: Ask, { mark }: NodeState): Promise<CheckIn> => {
    const answer = await checkInNode(
      ask,
      mark.node,
      tools.name,
      mark.known && { counter: mark.counter, era: mark.known.era },
    )
    if (answer.trouble === null || mark.known === undefined) await mark.agree(answer)
    return answer
  }

  /**
   * A seat without a mark is taken where the one before is held yet, by a process of this folder that hangs, or ends slowly. Its session is gone with a
   * server that was started again, so that nobody vouches; but its mark stands here, and knows this database as well as one of ours would.
   */
  const checkInOwn = async (ask: Ask): Promise<CheckIn> => {
    if (own.mark.known === undefined)
      for (const mark of await tools.beside()) {
        if (mark.counter === 0 || !(await knowsMark(ask, mark))) continue
        await vouchFor(ask)
        try {
          return await checkIn(ask, own)
        } finally {
          await vouchNoMoreFor(ask)
        }
      }
    return checkIn(ask, own)
  }

  const look = async (ask: Ask): Promise<boolean> => {
    const { trouble, serverKnown } = await checkInOwn(ask)
    if (!serverKnown && !saidUnknown) {
      saidUnknown = true
      const step = 'PostgreSQL does not say which server it is: lost commits are noticed only by counters'
      log.started({ service: 'restore fence', step })
    }
    stops = await readStops(ask)
    return trouble === null
  }

  /** On the session that lasts: everything that comes before the first claim. */
  const settleAndLook = async (ask: Ask): Promise<void> => {
    let fine = await look(ask)
    // Each time anew: after a failover everybody waits also for those that have ended since our start, and nobody else speaks for them.
    if (left.length === 0) left = await tools.left()
    for (const seat of left)
      if (seat.mark.known !== undefined) fine = (await checkIn(ask, seat)).trouble === null && fine
    if (fine) {
      const untold: (typeof own)[] = []
      for (const seat of [own, ...left]) if (!(await replay.tell(ask, seat.journal))) untold.push(seat)
      for (const seat of left) if (!untold.includes(seat)) await seat.release()
      left = left.filter((seat) => untold.includes(seat))
      if (untold.length > 0) lookAgain(ask)
      if (vouchedOn !== ask) await vouchFor(ask)
      vouchedOn = ask
    } else {
      // The operator is to decide knowing them. They stay in the journal: this may be the wrong database.
      for (const { mark, journal } of [own, ...left]) if (mark.known !== undefined) await replay.forewarn(ask, journal)
    }
    stops = await readStops(ask)
    admitted = fine
    lookFailed = false
    changed()
  }

  const changed = () => {
    const now = stops.map(({ kind, reason }) => `${kind}: ${reason}`).join(', ')
    if (now !== told) {
      told = now
      const stop = stops.find(({ kind }) => kind !== 'drain')
      if (stop !== undefined) log.fault('fence', new Error(sentenceOf(stop)), { reason: stop.reason })
      else if (stops.length > 0) log.stopped({ service: 'delivery', reason: 'drain' })
      else log.started({ service: 'delivery' })
    }
    for (const listener of listeners) listener()
  }

  let markAgain: NodeJS.Timeout | undefined
  const tryMark = (): void => {
    own.mark.keep(own.mark.counter).then(() => {
      markless = false
      log.started({ service: 'delivery', step: 'the mark can be written again' })
      changed()
    }, withoutMark)
  }
  const withoutMark = (why: unknown): void => {
    log.fault('mark', why)
    markless = true
    clearTimeout(markAgain)
    if (ears !== undefined) markAgain = setTimeout(tryMark, limits.markAgainMs)
    changed()
  }
  own.mark.onRefused(withoutMark)

  let ears: { stop(): Promise<void> } | undefined
  let again: NodeJS.Timeout | undefined
  let session: Ask | undefined
  const attend = (ask: Ask): void => {
    session = ask
    clearTimeout(again)
    inTurn(() => settleAndLook(ask)).catch((error: unknown) => {
      if (ears === undefined) return // stopped, and its session with it
      log.fault('fence', error)
      lookFailed = true
      // A session that broke is replaced and heard of; on a sound one nothing comes by itself.
      lookAgain(ask)
    })
  }
  const lookAgain = (ask: Ask): void => {
    // Replaced while its look waited for its turn: asked again, it would fail for ever, and each time instead of the one that lives.
    if (ears === undefined || session !== ask) return
    clearTimeout(again)
    again = setTimeout(() => attend(ask), 1_000)
  }
  const service = lifecycle(
    'fence',
    () => {
      ears = tools.listen(attend)
      if (markless) tryMark()
      return Promise.resolve()
    },
    async () => {
      admitted = false
      const hearing = ears
      ears = undefined
      clearTimeout(again)
      clearTimeout(markAgain)
      await hearing?.stop()
      await turn
      admitted = false // by a look that had its answers
    },
  )
  return {
    ...service,
    greet: (ask) =>
      inTurn(async () => {
        if (!(await look(ask))) admitted = false
        changed()
      }),
    isOpen: () => admitted && stops.length === 0 && !markless,
    knowsDatabase: () => admitted,
    onChange: (listener) => void listeners.push(listener),
    get stops() {
      return stops
    },
    get ownStop() {
      if (markless) return 'mark'
      return lookFailed && !admitted && stops.length === 0 ? 'look' : undefined
    },
  }
}

const ways = 'look at docs/restore.md, then: posthorn recover --resume, or --assume-sent-since TIME'

/** Why delivery stands still, and the way out. */
function sentenceOf({ kind, reason }: DeliveryStop): string {
  const cause = causeOfStop(reason)
  if (kind === 'pause' && cause !== undefined) return `${cause}: delivery goes on when they have`
  if (reason === 'operator') return `An operator has stopped delivery to recover: ${ways}`
  return cause === undefined ? `Delivery is stopped (${reason})` : `${cause}, so nobody delivers: ${ways}`
}
