// What the counters of both processes tell before anything has happened: the words of other rooms, which `base` does not know.
import type { KnownLabels } from './base/metrics.ts'
import { bounceClasses, bounceEventOf } from './domain/bounce-rules.ts'
import { deliveryEventTypes } from './domain/message.ts'
import { refusalCodes } from './domain/refusal.ts'

export const knownLabels = {
  posthorn_refused_total: refusalCodes.map((code) => ({ code })),
  posthorn_bounces_total: bounceClasses.flatMap((each) => {
    const type = bounceEventOf[each]
    return type === 'hard_bounce' || type === 'soft_bounce' ? [{ class: each, type }] : []
  }),
  posthorn_reports_total: deliveryEventTypes.map((type) => ({ type, outcome: 'recorded' })),
} satisfies KnownLabels
