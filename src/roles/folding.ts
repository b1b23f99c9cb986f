// Counts of the charts come together every second, as a service. A round that waits for the database is the only one that does: those that would have
// come meanwhile are not made up for, nor waited for by a stop.
import { repeatingService } from '../base/repeating.ts'
import type { Log } from '../base/log.ts'
import type { Service } from '../base/service.ts'
import { limits } from '../config.ts'
import type { Db } from '../store/database.ts'
import { makeFold } from '../store/usage.ts'

export function folding(db: Db, log: Log): Service {
  const fold = makeFold()
  return repeatingService(
    'counts',
    () => limits.foldCountsMs,
    () => fold(db),
    (error) => log.fault('counts', error),
  )
}
