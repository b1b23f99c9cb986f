// Looks now and then for domains that are due for a check, on every node that serves the API: a domain is taken by one of them.
import type { Log } from '../base/log.ts'
import { repeatingService } from '../base/repeating.ts'
import type { Service } from '../base/service.ts'
import { limits } from '../config.ts'
import type { DomainChecker } from './domain-check.ts'

export function domainWatch(checker: DomainChecker, log: Log): Service {
  return repeatingService(
    'domain checks',
    () => limits.domainLookMs,
    async () => void (await checker.checkDue()),
    (error) => log.fault('domain checks', error),
  )
}
