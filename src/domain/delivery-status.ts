// deliveryStatus is the highest rank reported so far (decisions C), so order and repetition of reports do not matter, and it never
// touches the processing state (specification 3.2).
import type { DeliveryEventType, DeliveryStatus } from './message.ts'

export interface DeliveryReport {
  readonly type: DeliveryEventType
  /** True for a soft bounce after which nobody tries again. */
  readonly final: boolean
}

/** The numbers stand in the database too (`messages.delivery_rank`), where the greatest one wins. */
export function rankOf(report: DeliveryReport): number {
  switch (report.type) {
    case 'soft_bounce':
      return report.final ? 3 : 1
    case 'delivered':
      return 2
    case 'hard_bounce':
      return 4
    case 'complaint':
      return 5
  }
}

const statusOfRank = ['pending', 'soft_bounce', 'delivered', 'soft_bounce', 'hard_bounce', 'complaint'] as const

/** The status that a rank from the database means. */
export function deliveryStatusOf(rank: number): DeliveryStatus {
  const status = statusOfRank[rank]
  if (status === undefined) throw new Error(`delivery rank ${rank} does not exist`)
  return status
}

/** The ranks that mean this status. */
export function ranksOf(status: DeliveryStatus): readonly number[] {
  return statusOfRank.flatMap((each, rank) => (each === status ? [rank] : []))
}
