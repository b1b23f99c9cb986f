// What relays' feeds said about messages before we had written down what the relay calls them is looked at again, as a service. By the one role in which
// feeds are heard.
import { repeatingService } from './base/repeating.ts'
import type { Log } from './base/log.ts'
import type { Service } from './base/service.ts'
import { limits } from './config.ts'
import type { Feedback } from './feedback/feedback.ts'

export function matching(feedback: Pick<Feedback, 'matchLate'>, log: Log): Service {
  return repeatingService(
    'late feedback',
    () => limits.unmatchedAgainMs,
    () => feedback.matchLate(),
    (error) => log.fault('feedback', error),
  )
}
