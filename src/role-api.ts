// The role `api`: the REST API over HTTP, and acceptance behind it.
import { absentScanner, builtInScanner, makeAccept } from './accept/accept.ts'
import type { Service } from './base/service.ts'
import { limits, publicUrl, type Settings } from './config.ts'
import { httpServer } from './http/server.ts'
import { closeAll, type Role, type RoleTools } from './role.ts'
import { makeAdmitter } from './store/admit.ts'
import { stageBlob } from './store/blobs.ts'
import { isDatabaseAway, listen, openDatabase } from './store/database.ts'
import { makeIds } from './store/message-id.ts'
import { isReachable } from './store/server-facts.ts'
import { readRecord, readStatus } from './store/views/message-status.ts'
import { makeAuthenticator } from './workspace/workspace.ts'

export function api({ settings, connection, log, metrics }: RoleTools): Role {
  const admitDb = openDatabase(connection, {
    name: 'posthorn accept',
    connectionsMax: 2,
    answerMs: limits.databaseAnswerMs,
  })
  const readDb = openDatabase(connection, {
    name: 'posthorn read',
    connectionsMax: 4,
    answerMs: limits.databaseAnswerMs,
  })
  const stageDb = openDatabase(connection, {
    name: 'posthorn stage',
    connectionsMax: 2,
    answerMs: 30_000,
  })
  const ids = makeIds(readDb)
  const authenticator = makeAuthenticator({ db: readDb, publicUrl: publicUrl(settings), log })
  const heard = listen(connection, 'posthorn_access', () => authenticator.forget())
  const accept = makeAccept({
    ids,
    admitter: makeAdmitter(admitDb),
    scanner: scannerOf(settings),
    hostname: settings.POSTHORN_HOSTNAME,
    log,
    stage: (id, bytes) => stageBlob(stageDb, id, bytes),
    readRecord: (workspace, id) => readRecord(readDb, workspace, id),
  })
  const http = httpServer({
    host: settings.POSTHORN_HTTP_HOST,
    port: settings.POSTHORN_HTTP_PORT,
    publicUrl: publicUrl(settings),
    trustProxy: settings.POSTHORN_TRUST_PROXY,
    log,
    metrics: metrics.http,
    isDatabaseAway,
    doors: {
      authenticate: (secret) => authenticator.authenticate(secret),
      accept,
      readStatus: (workspace, id) => readStatus(readDb, workspace, id),
      ready: async () => {
        const reachable = await isReachable(readDb)
        return { ready: reachable, detail: { database: reachable ? 'reachable' : 'not reachable' } }
      },
    },
  })
  return {
    services: [starting('ids', () => ids.synchronize()), http],
    closing: [() => ids.stop(), () => heard.stop(), ...closeAll(admitDb, readDb, stageDb)],
  }
}

function scannerOf(settings: Settings) {
  return settings.POSTHORN_CLAMD === undefined ? builtInScanner : absentScanner
}

/** Work that must be done once before what follows can start. */
function starting(name: string, work: () => Promise<void>): Service {
  return { name, start: work, stop: () => Promise.resolve() }
}
