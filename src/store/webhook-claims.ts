// The claims of one sender, each under a name of its own, so that what one took whose answer was lost is known by that name: its events are neither posted behind later
// ones nor lose a try.
import { randomUUID } from 'node:crypto'
import { surelyAborted, type Db } from './database.ts'
import { claimWebhooks, giveBackClaims, type WebhookClaimAnswer, type WebhookClaimRequest } from './webhooks.ts'

export interface WebhookClaims {
  claim(request: Omit<WebhookClaimRequest, 'name' | 'from' | 'leaseMs' | 'thorough'>): Promise<WebhookClaimAnswer>
  /** Gives back what claims took whose answers were lost; true where there was something. To be asked now and then: a commit may come late. */
  giveBackLost(): Promise<boolean>
}

export function makeWebhookClaims(db: Db, leaseMs: number): WebhookClaims {
  const sender = randomUUID().slice(0, 18)
  let count = 0
  /** Nobody knows what was claimed before it. */
  let from: string | undefined
  /** And until when a lease may last that it took. */
  const lost = new Map<string, number>()
  /** The last claim met what it had to leave for something before it: the next looks for that beyond the share, which costs more. */
  let wasHeldUp = false

  const nextName = (): string => {
    const digits = (++count).toString(16).padStart(16, '0')
    return `${sender}-${digits.slice(0, 4)}-${digits.slice(4)}`
  }
  return {
    claim: async (request) => {
      const name = nextName()
      from ??= name
      try {
        const answer = await claimWebhooks(db, { ...request, name, from, leaseMs, thorough: wasHeldUp })
        wasHeldUp = answer.isHeldUp
        return answer
      } catch (error) {
        if (!surelyAborted(error)) {
          lost.set(name, performance.now() + leaseMs)
          from = undefined
        }
        throw error
      }
    },
    giveBackLost: async () => {
      for (const [name, until] of lost) if (performance.now() > until) lost.delete(name)
      return lost.size > 0 && (await giveBackClaims(db, [...lost.keys()])) > 0
    },
  }
}
