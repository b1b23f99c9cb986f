// Acceptance with its own connection to the database and all that it works with, for whoever takes mail in: the API, submission, a command.
import type { Log } from '../base/log.ts'
import { limits } from '../config.ts'
import { makeAdmitter } from '../store/admit.ts'
import { stageBlob } from '../store/blobs.ts'
import type { Connection } from '../store/connection.ts'
import { commitSomething, openDatabase, type Db } from '../store/database.ts'
import { makeIds } from '../store/message-id.ts'
import { makeNudges } from '../store/nudges.ts'
import { readRecord } from '../store/views/message-status.ts'
import type { AcceptTools } from './accept.ts'
import { makeScanner } from './scan.ts'

export interface Acceptance {
  /** Its `ids` are to be synchronized before the first message. */
  readonly tools: AcceptTools
  /** To be done in this order, when nothing is taken in any more. */
  readonly closing: readonly (() => Promise<void> | void)[]
}

export function openAcceptance(opened: {
  readonly connection: Connection
  /** What PostgreSQL calls its sessions. */
  readonly name: string
  readonly connectionsMax: number
  readonly readDb: Db
  readonly stageDb: Db
  readonly clamd: Parameters<typeof makeScanner>[0]
  readonly hostname: string
  readonly log: Log
}): Acceptance {
  const { connection, name, connectionsMax, readDb, stageDb, hostname, log } = opened
  const nudges = makeNudges(connection)
  const admitDb = openDatabase(connection, {
    name,
    connectionsMax,
    answerMs: limits.databaseAnswerMs,
    lockMs: limits.admissionLockMs,
    nudge: nudges.of('posthorn_due', 'posthorn_webhooks'),
  })
  const ids = makeIds(readDb)
  const scanner = makeScanner(opened.clamd)
  const admitter = makeAdmitter(admitDb)
  return {
    tools: {
      ids,
      admitter,
      scanner,
      hostname,
      log,
      stage: (id, bytes) => stageBlob(stageDb, id, bytes, () => admitter.pressed),
      readRecord: (workspace, id) => readRecord(readDb, workspace, id),
      commitSomething: () => commitSomething(readDb),
    },
    closing: [() => scanner.stop(), () => ids.stop(), () => admitDb.close(), () => nudges.close()],
  }
}
