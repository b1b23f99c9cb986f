// Looks now and then for domains that are due for a check, on every node that serves the API: a domain is taken by one of them.
import type { Log } from '../base/log.ts'
import type { Service } from '../base/service.ts'
import { limits } from '../config.ts'
import type { DomainChecker } from './domain-check.ts'

export function domainWatch(checker: DomainChecker, log: Log): Service {
  let timer: NodeJS.Timeout | undefined
  let working: Promise<void> | undefined
  const look = (): void => {
    working ??= checker
      .checkDue()
      .then(() => undefined)
      .catch((error: unknown) => log.fault('domain checks', error))
      .finally(() => {
        working = undefined
      })
  }
  return {
    name: 'domain checks',
    start: () => {
      timer ??= setInterval(look, limits.domainLookMs)
      return Promise.resolve()
    },
    stop: async () => {
      clearInterval(timer)
      timer = undefined
      await working
    },
  }
}
