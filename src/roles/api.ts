// The role `api`: the REST API over HTTP, and acceptance behind it.
import { makeAccept, makeAcceptMail, openAcceptance, readQuota, type Scanner } from '../accept/accept.ts'
import type { Log } from '../base/log.ts'
import { remembered } from '../base/remembered.ts'
import { repeatingService } from '../base/repeating.ts'
import { makeZones } from '../base/zones.ts'
import { limits, publicUrl, submissionServer } from '../config.ts'
import { providerOf, visitRelay } from '../deliver/deliver.ts'
import { examine } from '../doctor/doctor.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { makeAwsFetch, makeFeeds } from '../feeds/feeds.ts'
import { folding } from './folding.ts'
import { httpServer } from '../http/server.ts'
import { openFeedback } from './open-feedback.ts'
import { watchReadiness } from '../readiness.ts'
import { closeAll, starting, type Role, type RoleTools } from './role.ts'
import { answeredWithin, isDatabaseAway, openDatabase } from '../store/database.ts'
import { listen } from '../store/listen.ts'
import { makeRefusalBook } from '../store/refused-submissions.ts'
import { readStatus } from '../store/views/message-status.ts'
import { catchUp, makeTargets, makeWebhookDesk } from '../webhooks/webhooks.ts'
import {
  domainWatch,
  makeAuthenticator,
  makeDomainChecker,
  makeDomainNotices,
  makeLive,
  makeNotifier,
  webhookNotices,
  makePeople,
  readSystemSender,
  standingOf,
} from '../workspace/workspace.ts'

export function api(tools: RoleTools): Role {
  const { settings, connection, vault, log, metrics, dashboard, deliveryState, hasStarted } = tools
  const readDb = openDatabase(connection, {
    name: 'posthorn read',
    connectionsMax: 4,
    shareMax: 2,
    answerMs: limits.databaseAnswerMs,
  })
  const stageDb = openDatabase(connection, {
    name: 'posthorn stage',
    connectionsMax: 2,
    answerMs: limits.databaseAnswerMs, // nobody waits any longer (limits.stageChunkMs)
  })
  // Apart from the reads of the API: a slow question of the dashboard must not hold up a status.
  const manageDb = openDatabase(connection, {
    name: 'posthorn manage',
    connectionsMax: 4,
    shareMax: 2,
    answerMs: 30_000,
  })
  const recorder = openFeedback(tools)
  const acceptance = openAcceptance({
    connection,
    name: 'posthorn accept',
    connectionsMax: 2,
    readDb,
    stageDb,
    clamd: settings.POSTHORN_CLAMD,
    hostname: settings.POSTHORN_HOSTNAME,
    log,
  })
  const { ids, scanner } = acceptance.tools
  const authenticator = makeAuthenticator({ db: readDb, publicUrl: publicUrl(settings), log })
  const heard = listen(connection, 'posthorn_access', () => authenticator.forget())
  const accept = makeAccept(acceptance.tools)
  const refusals = makeRefusalBook(stageDb, log)
  const notify = makeNotifier({ db: manageDb, log, mailbox: settings.POSTHORN_SYSTEM_MAILBOX, accept })
  const live = makeLive()
  const domains = makeDomainChecker({
    db: manageDb,
    zones: makeZones({ servers: settings.POSTHORN_DNS_SERVERS }),
    hostname: settings.POSTHORN_HOSTNAME,
    tell: makeDomainNotices({ db: manageDb, notify, publicUrl: publicUrl(settings), log }),
  })
  const heardLive = listen(connection, 'posthorn_live', (_ask, workspaces) => live.heard(workspaces ?? '*'))
  const examined = remembered(
    () =>
      examine({
        settings,
        database: { db: manageDb, vault },
        scanner,
        visit: (...relay) => visitRelay(settings, ...relay),
        systemSender: (db, vault) => readSystemSender({ db, vault, settings }),
        providerOf,
      }),
    { keepMs: () => limits.doctorKeptMs, most: 1 },
  )
  const office = {
    db: manageDb,
    vault,
    hostname: settings.POSTHORN_HOSTNAME,
    publicUrl: publicUrl(settings),
    submission: submissionServer(settings),
    people: makePeople({ db: manageDb, vault, log, notify, publicUrl: publicUrl(settings) }),
    notify,
    systemMailbox: settings.POSTHORN_SYSTEM_MAILBOX,
    route: settings.POSTHORN_ROUTE,
    live,
    domains,
    doctor: () => examined(''),
    accept,
    acceptMail: makeAcceptMail(acceptance.tools),
    standing: (workspace: WorkspaceId) => standingOf(manageDb, workspace, publicUrl(settings)),
  }
  const http = httpServer({
    host: settings.POSTHORN_HTTP_HOST,
    port: settings.POSTHORN_HTTP_PORT,
    from: { host: 'POSTHORN_HTTP_HOST', port: 'POSTHORN_HTTP_PORT' },
    publicUrl: publicUrl(settings),
    dashboard: () => dashboard,
    trustProxy: settings.POSTHORN_TRUST_PROXY,
    log,
    metrics: metrics.http,
    isDatabaseAway,
    now: () => ids.now(),
    office,
    doors: {
      authenticate: (secret) => answeredWithin(limits.authenticationMs, authenticator.authenticate(secret)),
      accept,
      noteRefused: (refused) => refusals.note(refused),
      quota: (workspace) => answeredWithin(limits.authenticationMs, readQuota(readDb, workspace)),
      readStatus: (workspace, id) => readStatus(readDb, workspace, id),
      webhooks: makeWebhookDesk({
        db: manageDb,
        vault,
        targets: makeTargets(settings),
        timeScale: settings.POSTHORN_TIME_SCALE,
      }),
      catchUp: (workspace, after, limit) => catchUp(readDb, workspace, after, limit),
      // What relay providers post is recorded like what comes by mail.
      feed: makeFeeds({
        db: readDb,
        vault,
        aws: makeAwsFetch(),
        log,
        now: () => new Date(ids.now()),
        record: (from, reports) => recorder.feedback.receiveFed(from, reports),
      }),
      ready: watchReadiness(readDb, deliveryState, hasStarted),
    },
  })
  const told = () => {
    tellScanner(scanner, log).catch((error: unknown) => log.fault('scanner', error))
    return Promise.resolve()
  }
  return {
    services: [
      starting('ids', () => ids.synchronize()),
      starting('scanner', told),
      folding(manageDb, log),
      // What feeds said about messages before the relay's reply was written down; by the one role in which feeds are heard.
      repeatingService(
        'late feedback',
        () => limits.unmatchedAgainMs,
        () => recorder.feedback.matchLate(),
        (error) => log.fault('feedback', error),
      ),
      domainWatch(domains, log),
      webhookNotices({ db: manageDb, notify, publicUrl: publicUrl(settings), log }),
      http,
    ],
    closing: [
      ...acceptance.closing,
      () => heard.stop(),
      () => heardLive.stop(),
      () => refusals.quiet(),
      () => authenticator.quiet(),
      ...closeAll(readDb, stageDb, manageDb),
      ...recorder.closing,
    ],
  }
}

/** Says in the log which scanner is at work, and whether the engine can do what we shall ask of it. The start does not wait for it. */
async function tellScanner(asked: Scanner, log: Log): Promise<void> {
  const { trouble, ...known } = await asked.facts()
  const { description: scanner, ...versions } = known
  if (trouble === undefined) log.started({ scanner, ...versions })
  else log.fault('scanner: no file is accepted until this is mended', new Error(trouble), { scanner })
}
