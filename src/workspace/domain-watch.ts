// Looks now and then for domains that are due for a check, on every node that serves the API: a domain is taken by one of them.
import type { Log } from '../base/log.ts'
import { repeatingService } from '../base/repeating.ts'
import type { Service } from '../base/service.ts'
import { limits } from '../config.ts'
import type { DomainChecker } from './domain-check.ts'

/** Where a look has found as many as it may take, more are due: behind weeks off, or an outage of the DNS, that is all that there are. */
export function domainWatch(checker: Pick<DomainChecker, 'checkDue'>, log: Log): Service {
  let isMoreDue = false
  return repeatingService(
    'domain checks',
    () => (isMoreDue ? limits.domainLookOnMs : limits.domainLookMs),
    async () => {
      isMoreDue = false
      isMoreDue = (await checker.checkDue()) >= limits.domainChecksPerRound
    },
    (error) => log.fault('domain checks', error),
  )
}
