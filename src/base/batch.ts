// Group commit in the application: while one statement is in flight, callers collect; the next statement takes all of them,
// bounded in rows and bytes. Alone, a caller's row goes at once: there is no timer (a waiting window halves throughput, docs/decisions/0009)
// but for those who can bear it. Where more wait than one statement takes, owners come in by turns. Each caller gets its own answer.
import { Tally } from './tally.ts'

/** Callers that are few share one statement, also where statements take turns (`BatchLimits.takingTurns`): two small ones cost more than one. */
const fewRows = 16
/** How slowly callers who no longer come are forgotten, statement by statement: after seventy, half of them are. */
const callersKept = 0.99

export interface BatchLimits {
  readonly rowsMax: number
  readonly bytesMax: number
  /** How many callers may wait for their batch; more are refused with `BatchFull`. An owner may fill half of the line. */
  readonly waitingMax: number
  /**
   * The least time between the starts of two statements, for rows whose callers can bear it: fewer, fuller statements. A row that comes after a
   * pause still goes at once. Left out: none.
   */
  readonly spacingMs?: number
  /** Where many come it may be more: a millisecond for each row of the last statement, up to this. Left out: `spacingMs`. */
  readonly spacingMostMs?: number
  /** A row that waited longer for its statement is refused with `BatchFull` and surely never executed: its caller has given up. Left out: none. */
  readonly patienceMs?: number
  /**
   * For rows whose callers wait for the answer and then come again: no statement takes more than half of the callers lately seen. Otherwise all of
   * them end up in one statement, as buses bunch, and the database stands still while they are answered, and they while it works
   * (docs/decisions/0009).
   */
  readonly takingTurns?: boolean
  /**
   * While the event loop hardly rests, a statement of few rows starts no sooner than this behind the start of the last: what it costs before its
   * first row is taken from those who wait (docs/decisions/0009). Left out: at once.
   */
  readonly whenBusy?: { readonly isBusy: () => boolean; readonly spacingMs: number }
}

const nothing = (): void => undefined
const ofNobody: Belonging = { owner: '', rows: 1 }
const neverBusy = { isBusy: () => false, spacingMs: 0 }

/** Thrown to the caller when too many rows are waiting, or one waited too long: the database is slower than the arrivals. */
export class BatchFull extends Error {
  override readonly name = 'BatchFull'
}

function* byTurns<Item extends { readonly owner: string }>(waiting: readonly Item[]): Generator<Item> {
  const lines = [...Map.groupBy(waiting, ({ owner }) => owner).values()]
  const longest = Math.max(...lines.map(({ length }) => length))
  for (let turn = 0; turn < longest; turn++) for (const line of lines) if (turn < line.length) yield line[turn] as Item
}

/** Says of an error whether its statement surely took no effect, so that the rows may be tried one by one. */
export type Aborted = (error: unknown) => boolean

/** What a caller's row is in its statement, where it is not one row of nobody. */
export interface Belonging {
  readonly owner: string
  /** It stands for so many. */
  readonly rows: number
}

interface Waiting<Row, Answer> {
  readonly row: Row
  readonly bytes: number
  readonly owner: string
  readonly rows: number
  readonly since: number
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/**
 * One lane of batches. `run` executes one statement for many rows and answers in the order of the rows. When a batch of several
 * rows fails and `aborted` says that the failure surely left nothing behind, it is halved, so that one poisoned row cannot fail its neighbours;
 * any other failure goes to every caller of the batch.
 */
export class Batch<Row, Answer> {
  readonly #run: (rows: readonly Row[]) => Promise<readonly Answer[]>
  readonly #limits: BatchLimits
  readonly #aborted: Aborted
  #waiting: Waiting<Row, Answer>[] = []
  /** How many of those are whose. */
  readonly #waitingOf = new Tally()
  #busy = false
  #startedAt = -Infinity
  #lastRows = 0
  /** Rows in flight and waiting at once, the most that lately were: about as many as there are callers. */
  #callers = 0
  /** Rows of the statement that has just ended, whose callers may come again: 0 where it kept nobody waiting. */
  #answered = 0
  #idle: (() => void)[] = []
  #enough = nothing

  constructor(run: (rows: readonly Row[]) => Promise<readonly Answer[]>, limits: BatchLimits, aborted: Aborted) {
    this.#run = run
    this.#limits = limits
    this.#aborted = aborted
  }

  /** Adds a row to the next batch. `bytes` is its approximate size in the statement. */
  add(row: Row, bytes = 0, { owner, rows }: Belonging = ofNobody): Promise<Answer> {
    const { waitingMax } = this.#limits
    if (this.#waiting.length >= waitingMax || (owner !== '' && this.#waitingOf.of(owner) >= waitingMax / 2))
      return Promise.reject(new BatchFull('too many rows wait for the database'))
    return new Promise((resolve, reject) => {
      this.#waiting.push({ row, bytes, owner, rows, since: performance.now(), resolve, reject })
      this.#waitingOf.add(owner)
      if (this.#isEnough()) this.#enough()
      if (this.#busy) return
      this.#busy = true
      // setImmediate, not at once: everything that arrived in the same turn of the event loop shares the first statement.
      setImmediate(() => void this.#drain())
    })
  }

  /** Rows wait while a statement is under way: more come than the database takes at once. */
  get pressed(): boolean {
    return this.#waiting.length > 0
  }

  /** Resolves when nothing waits and nothing is in flight. */
  quiet(): Promise<void> {
    return this.#busy ? new Promise((resolve) => this.#idle.push(resolve)) : Promise.resolve()
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) {
      const { spacingMs = 0, spacingMostMs = spacingMs } = this.#limits
      const early = this.#startedAt + Math.min(spacingMostMs, Math.max(spacingMs, this.#lastRows)) - performance.now()
      if (spacingMs > 0 && early > 0 && this.#waiting.length < this.#limits.rowsMax)
        await new Promise((resolve) => setTimeout(resolve, early))
      await this.#company()
      this.#startedAt = performance.now()
      const batch = this.#take()
      this.#answered = this.#lastRows = batch.length
      if (batch.length > 0) await this.#execute(batch)
    }
    this.#answered = 0
    this.#busy = false
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Those who wait are not few, or all who lately came are among them. */
  #isEnough(): boolean {
    return this.#waiting.length >= Math.min(fewRows, this.#callers)
  }

  /** Where few wait and the loop is busy: until there are enough, or their time has come. */
  async #company(): Promise<void> {
    const { isBusy, spacingMs } = this.#limits.whenBusy ?? neverBusy
    if (this.#isEnough() || !isBusy()) return
    const early = this.#startedAt + spacingMs - performance.now()
    if (early <= 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, early)
      this.#enough = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#enough = nothing
  }

  #take(): Waiting<Row, Answer>[] {
    const { patienceMs = Infinity } = this.#limits
    const oldest = performance.now() - patienceMs
    const late = this.#waiting.findIndex(({ since }) => since >= oldest)
    for (const waiting of this.#leave(late < 0 ? this.#waiting.length : late))
      waiting.reject(new BatchFull('the database was too slow'))
    const callersMax = this.#callersOfTurn()
    const room = this.#roomFor(callersMax)
    const first = this.#waiting.findIndex((next) => !room(next))
    if (first < 0) return this.#leave(this.#waiting.length)
    return this.#waitingOf.names < 2 ? this.#leave(first) : this.#takeByTurns(callersMax)
  }

  /** The first so many, who wait no longer. */
  #leave(many: number): Waiting<Row, Answer>[] {
    const gone = this.#waiting.splice(0, many)
    for (const { owner } of gone) this.#waitingOf.take(owner)
    return gone
  }

  /** One of each owner before the second of any, those first who have waited longest: who sends very many delays the others by a statement. */
  #takeByTurns(callersMax: number): Waiting<Row, Answer>[] {
    const room = this.#roomFor(callersMax)
    const taken = new Set<Waiting<Row, Answer>>()
    for (const next of byTurns(this.#waiting)) {
      if (!room(next)) break
      taken.add(next)
    }
    this.#waiting = [...taken, ...this.#waiting.filter((waiting) => !taken.has(waiting))]
    return this.#leave(taken.size)
  }

  /** Whether one more has room in the next statement; whatever it is, the first one has. */
  #roomFor(callersMax: number): (next: Waiting<Row, Answer>) => boolean {
    const { rowsMax, bytesMax } = this.#limits
    let [callers, rows, bytes] = [0, 0, 0]
    return (next) => {
      if (callers > 0 && (callers >= callersMax || rows + next.rows > rowsMax || bytes + next.bytes > bytesMax))
        return false
      callers++
      rows += next.rows
      bytes += next.bytes
      return true
    }
  }

  #callersOfTurn(): number {
    this.#callers = Math.max(this.#answered + this.#waiting.length, this.#callers * callersKept)
    return this.#limits.takingTurns === true ? Math.max(fewRows, Math.ceil(this.#callers / 2)) : Infinity
  }

  async #execute(batch: Waiting<Row, Answer>[]): Promise<void> {
    try {
      const answers = await this.#run(batch.map((waiting) => waiting.row))
      const tell = () => batch.forEach((waiting, index) => waiting.resolve(answers[index] as Answer))
      // Where others wait, their statement goes out first: what these callers do with their answers then happens while it is in flight,
      // and the database does not stand still meanwhile.
      if (this.#waiting.length > 0) setImmediate(tell)
      else tell()
    } catch (error) {
      if (batch.length > 1 && this.#aborted(error)) {
        const half = batch.length >> 1
        await this.#execute(batch.slice(0, half))
        await this.#execute(batch.slice(half))
      } else for (const waiting of batch) waiting.reject(error)
    }
  }
}
