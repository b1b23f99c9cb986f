// Equal idempotency keys are told apart before SQL: a loser waits for the winner, then finds what it left. Where it left nothing, one of
// the losers is next. Between nodes, the lock on the quota row does the same.
import { limits } from '../config.ts'
import { isRefusal, refuse, type Refusal } from '../domain/refusal.ts'

/** Decides one after the other under the same name. */
export type InTurn<Answer> = (name: string, decide: () => Promise<Answer | Refusal>) => Promise<Answer | Refusal>

export function equalKeysInTurn<Answer>(): InTurn<Answer> {
  /** What is being decided here. */
  const underWay = new Map<string, Promise<Answer | Refusal>>()
  return async (name, decide) => {
    const until = performance.now() + limits.idempotencyWaitMs
    for (let first = underWay.get(name); first !== undefined; first = underWay.get(name)) {
      const end = await settled(first, until - performance.now())
      if (end === 'late')
        return refuse(
          'idempotency_in_progress',
          'A request with this Idempotency-Key is still in progress; try again in a second.',
          { retryAfterSeconds: 1 },
        )
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
