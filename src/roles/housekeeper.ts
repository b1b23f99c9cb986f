// Housekeeping as a service: a round at the start, because a node that is restarted often must do it too, and then every ten minutes. A round
// that waits for a table in use, or has much to delete, does not hold up a stop.
import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../base/log.ts'
import type { Service } from '../base/service.ts'
import { limits } from '../config.ts'
import type { Db } from '../store/database.ts'
import { keepHouse, type Retention } from '../store/housekeeping.ts'

export function housekeeper(db: Db, retention: Retention, log: Log): Service {
  let timer: NodeJS.Timeout | undefined
  let working: Promise<void> = Promise.resolve()
  let stopping = new AbortController()
  const work = () => {
    const { signal } = stopping
    const heeding: Db = {
      ...db,
      rows: async (statement, values) => {
        signal.throwIfAborted()
        return db.rows(statement, values)
      },
    }
    working = working
      .then(() => (signal.aborted ? undefined : keepHouse(heeding, retention, (ms) => wait(ms, undefined, { signal }))))
      .catch((error: unknown) => {
        if (!signal.aborted) log.fault('housekeeping', error)
      })
  }
  return {
    name: 'housekeeping',
    start: () => {
      if (timer === undefined) {
        stopping = new AbortController()
        work()
        timer = setInterval(work, limits.housekeepingMs)
      }
      return Promise.resolve()
    },
    stop: () => {
      clearInterval(timer)
      timer = undefined
      stopping.abort()
      return working
    },
  }
}
