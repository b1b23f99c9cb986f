// Acceptance over a database of the tests. All of it is real but the scanner's engine, of which there is none, and the ids, which are the world's.
import { silentLog } from '../base/log.ts'
import { makeAdmitter } from '../store/admit.ts'
import { stageBlob } from '../store/blobs.ts'
import { commitSomething } from '../store/database.ts'
import type { StoreWorld } from '../store/store.test-kit.ts'
import { readRecord } from '../store/views/message-status.ts'
import { makeScanner, type AcceptTools, type Scanner } from './accept.ts'

/** Without an engine. Its thread gives way to everybody, so on a busy machine it would have no processor for as long as a look may take. */
export const patientScanner = (): Scanner => makeScanner(undefined, { scanMs: 600_000, examineMs: 600_000 })

/** `db` of another node, where it is to be one. */
export function acceptTools(
  world: Pick<StoreWorld, 'db' | 'nextId'>,
  changes: Partial<AcceptTools> = {},
  db = world.db,
): AcceptTools {
  return {
    ids: {
      next: () => world.nextId(),
      sure: () => Promise.resolve(),
      now: Date.now,
      synchronize: () => Promise.resolve(),
      stop: () => undefined,
    },
    admitter: makeAdmitter(db),
    scanner: patientScanner(),
    hostname: 'node.test',
    log: silentLog,
    stage: (id, bytes) => stageBlob(db, id, bytes),
    readRecord: (workspace, id) => readRecord(db, workspace, id),
    commitSomething: () => commitSomething(db),
    ...changes,
  }
}
