// What the counters of both processes tell before anything has happened: the words of other rooms, which `base` does not know.
import type { KnownLabels } from './base/metrics.ts'
import { largeMailFault } from './base/spare-memory.ts'
import { bounceClasses, bounceEventOf } from './domain/bounce-rules.ts'
import { deliveryEventTypes } from './domain/message.ts'
import { refusalCodes } from './domain/refusal.ts'

const bounces = bounceClasses.flatMap((each) => {
  const type = bounceEventOf[each]
  return type === 'hard_bounce' || type === 'soft_bounce' ? [{ class: each, type }] : []
})

export const knownLabels = {
  posthorn_faults_total: [{ what: largeMailFault }],
  posthorn_refused_total: refusalCodes.map((code) => ({ code })),
  posthorn_bounces_total: bounces,
  posthorn_reports_total: [
    ...deliveryEventTypes.flatMap((type) => (type.endsWith('_bounce') ? [] : [{ type, outcome: 'recorded' }])),
    ...bounces.map((bounce) => ({ ...bounce, outcome: 'recorded' })),
  ],
} satisfies KnownLabels
