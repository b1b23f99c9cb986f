// Acceptance over a database of the tests. All of it is real but the scanner's engine, of which there is none, and the ids, which are the world's.
import { silentLog } from '../base/log.ts'
import { makeAdmitter } from '../store/admit.ts'
import { stageBlob } from '../store/blobs.ts'
import { commitSomething } from '../store/database.ts'
import type { StoreWorld } from '../store/store.test-kit.ts'
import { readRecord } from '../store/views/message-status.ts'
import { makeScanner, type AcceptTools } from './accept.ts'

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
    scanner: makeScanner(undefined),
    hostname: 'node.test',
    log: silentLog,
    stage: (id, bytes) => stageBlob(db, id, bytes),
    readRecord: (workspace, id) => readRecord(db, workspace, id),
    commitSomething: () => commitSomething(db),
    ...changes,
  }
}
