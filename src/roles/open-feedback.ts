// Feedback's door with its database and its tools, for the roles in which reports arrive.
import { limits } from '../config.ts'
import { makeFeedback, makeReporterCheck, type Feedback } from '../feedback/feedback.ts'
import { closeAll, type Role, type RoleTools } from './role.ts'
import { openDatabase, type PoolKind } from '../store/database.ts'
import { makeReportRecorder } from '../store/reports.ts'
import { makeReturnPathKeys } from '../store/return-path-keys.ts'

export function openFeedback({
  settings,
  connection,
  vault,
  log,
}: Omit<RoleTools, 'metrics'>): Pick<Role, 'closing'> & { readonly feedback: Feedback } {
  const open = (what: string, connectionsMax: number, waits: Pick<PoolKind, 'lockMs'> = {}) =>
    openDatabase(connection, { name: `posthorn ${what}`, connectionsMax, answerMs: limits.databaseAnswerMs, ...waits })
  const db = open('feedback', 2)
  const recordDb = open('report', 1, { lockMs: limits.lockMs })
  const feedback = makeFeedback({
    db,
    keys: makeReturnPathKeys(db, vault),
    record: makeReportRecorder(recordDb),
    provenReporter: makeReporterCheck({ dnsServers: settings.POSTHORN_DNS_SERVERS }),
    hostname: settings.POSTHORN_HOSTNAME,
    log,
  })
  return { feedback, closing: closeAll(db, recordDb) }
}
