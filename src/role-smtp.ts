// The role `smtp`: submission over SMTP, on a port with STARTTLS and on one with TLS from the first byte, and acceptance behind it.
import { X509Certificate } from 'node:crypto'
import { makeAcceptMail, makeScanner } from './accept/accept.ts'
import { renewals, tlsCertificate } from './base/certificate.ts'
import { Guesses } from './base/guesses.ts'
import { limits, publicUrl } from './config.ts'
import { closeAll, type Role, type RoleTools } from './role.ts'
import { Room } from './smtp/content.ts'
import { smtpServer } from './smtp/server.ts'
import { submissionOffer, submissionPolicies } from './smtp/submission.ts'
import { makeAdmitter } from './store/admit.ts'
import { stageBlob } from './store/blobs.ts'
import { listen, openDatabase } from './store/database.ts'
import { makeIds } from './store/message-id.ts'
import { makeNudges } from './store/nudges.ts'
import { makeRefusalBook } from './store/refused-submissions.ts'
import { readRecord } from './store/views/message-status.ts'
import { makeSubmitters } from './workspace/workspace.ts'

export function smtp({ settings, connection, vault, log, metrics }: RoleTools): Role {
  const open = (what: string, connectionsMax: number, answerMs: number = limits.databaseAnswerMs) =>
    openDatabase(connection, { name: `posthorn smtp ${what}`, connectionsMax, answerMs })
  const nudges = makeNudges(connection)
  const admitDb = openDatabase(connection, {
    name: 'posthorn smtp accept',
    connectionsMax: 2,
    answerMs: limits.databaseAnswerMs,
    nudge: nudges.of('posthorn_due', 'posthorn_webhooks'),
  })
  const readDb = open('read', 3)
  const stageDb = open('stage', 2)
  const ids = makeIds(readDb)
  const submitters = makeSubmitters({ db: readDb, vault, log, publicUrl: publicUrl(settings) })
  const heard = listen(connection, 'posthorn_access', () => submitters.forget())
  const refusals = makeRefusalBook(stageDb, log)
  const scanner = makeScanner(settings.POSTHORN_CLAMD)
  const admitter = makeAdmitter(admitDb)
  const acceptMail = makeAcceptMail({
    ids,
    admitter,
    scanner,
    hostname: settings.POSTHORN_HOSTNAME,
    log,
    stage: (id, bytes) => stageBlob(stageDb, id, bytes, () => admitter.pressed),
    readRecord: (workspace, id) => readRecord(readDb, workspace, id),
  })
  const policy = submissionPolicies({
    doors: { ...submitters, acceptMail, noteRefused: (refused) => refusals.note(refused) },
    guesses: new Guesses(),
    log,
  })
  const tls = tlsCertificate(settings)
  const certificate = renewals(settings, tls, log)
  metrics.watch(
    'posthorn_certificate_expires_timestamp_seconds',
    'When the certificate ends that SMTP submission shows.',
    () => new X509Certificate(certificate.shown.cert).validToDate.getTime() / 1000,
  )
  const shared = {
    host: settings.POSTHORN_SMTP_HOST,
    proxies: settings.POSTHORN_SMTP_PROXIES,
    policy,
    log,
    tls,
    limits: { sessionsPerLoopbackMax: limits.submissionSessionsPerLoopbackMax },
    room: new Room(limits.smtpContentInFlightBytesMax, limits.submissionContentOfWorkspaceBytesMax),
    sessions: new Map<string, number>(),
  }
  const hostname = settings.POSTHORN_HOSTNAME
  return {
    services: [
      { name: 'smtp ids', start: () => ids.synchronize(), stop: () => Promise.resolve() },
      smtpServer({
        ...shared,
        name: 'submission',
        port: settings.POSTHORN_SMTP_PORT,
        from: { host: 'POSTHORN_SMTP_HOST', port: 'POSTHORN_SMTP_PORT' },
        offer: submissionOffer(hostname, true),
        renewed: certificate.renewed,
      }),
      smtpServer({
        ...shared,
        name: 'submissions',
        port: settings.POSTHORN_SMTPS_PORT,
        from: { host: 'POSTHORN_SMTP_HOST', port: 'POSTHORN_SMTPS_PORT' },
        offer: submissionOffer(hostname, false),
        renewed: renewals(settings, tls, log).renewed,
        implicitTls: true,
      }),
    ],
    closing: [
      () => scanner.stop(),
      () => ids.stop(),
      () => heard.stop(),
      () => refusals.quiet(),
      ...closeAll(admitDb, readDb, stageDb),
      () => nudges.close(),
    ],
  }
}
