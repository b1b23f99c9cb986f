// Equal idempotency keys are told apart before SQL: a loser waits for the winner, then finds what it left. Where it left nothing, one of
// the losers is next. Who has waited for too long looks once more, and only then hears that it is in progress (decisions D). Between nodes, the
// lock on the quota row does the same.
import { limits } from '../config.ts'
import { isRefusal, refuse, type Refusal } from '../domain/refusal.ts'
import { answeredWithin } from '../store/database.ts'

/** Decides one after the other under the same name. `look` finds what an equal one has left, and decides nothing. */
export type InTurn<Answer> = (
  name: string,
  decide: () => Promise<Answer | Refusal>,
  look: () => Promise<Answer | Refusal | undefined>,
) => Promise<Answer | Refusal>

const inProgress = refuse(
  'idempotency_in_progress',
  'A request with this Idempotency-Key is still in progress; try again in a second.',
  { retryAfterSeconds: 1 },
)

export function equalKeysInTurn<Answer>(): InTurn<Answer> {
  /** What is being decided here. */
  const underWay = new Map<string, Promise<Answer | Refusal>>()
  return async (name, decide, look) => {
    const until = performance.now() + limits.idempotencyWaitMs
    for (let first = underWay.get(name); first !== undefined; first = underWay.get(name)) {
      const end = await settled(first, until - performance.now())
      // Another node may have admitted an equal one meanwhile, or this one without having heard so.
      if (end === 'late') return (await answeredWithin(limits.rereadMs, look()).catch(() => undefined)) ?? inProgress
      if (end === 'accepted') return decide()
    }
    const decided = decide()
    underWay.set(name, decided)
    try {
      return await decided
    } finally {
      underWay.delete(name)
    }
  }
}

/** How the decision on an equal key went, if it did within the time. */
async function settled(decision: Promise<unknown>, ms: number): Promise<'accepted' | 'nothing left' | 'late'> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), Math.max(0, ms))
  })
  const done = decision.then(
    (answer) => (isRefusal(answer) ? 'nothing left' : 'accepted'),
    () => 'nothing left' as const,
  )
  return Promise.race([done, late]).finally(() => clearTimeout(timer))
}
