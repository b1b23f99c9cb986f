// The role `smtp`: submission over SMTP, on a port with STARTTLS and on one with TLS from the first byte, and acceptance behind it.
import { withinMemoryOverSmtp } from '../base/spare-memory.ts'
import { X509Certificate } from 'node:crypto'
import { makeAcceptMail, openAcceptance } from '../accept/accept.ts'
import { renewals, tlsCertificate } from '../base/certificate.ts'
import { Guesses } from '../base/guesses.ts'
import { Tally } from '../base/tally.ts'
import { limits, publicUrl } from '../config.ts'
import { closeAll, starting, type Role, type RoleTools } from './role.ts'
import { ContentRoom } from '../smtp/content-room.ts'
import { smtpServer } from '../smtp/server.ts'
import { submissionOffer, submissionPolicies } from '../smtp/submission.ts'
import { isDatabaseAway, openDatabase } from '../store/database.ts'
import { listen } from '../store/listen.ts'
import { makeRefusalBook } from '../store/refused-submissions.ts'
import { makeSubmitters } from '../workspace/workspace.ts'

export function smtp({ settings, connection, vault, log, metrics }: RoleTools): Role {
  // What may fail comes before anything is opened.
  const tls = tlsCertificate(settings)
  const open = (what: string, connectionsMax: number) =>
    openDatabase(connection, { name: `posthorn smtp ${what}`, connectionsMax, answerMs: limits.databaseAnswerMs })
  const readDb = open('read', 3)
  const stageDb = open('stage', 2)
  const hostname = settings.POSTHORN_HOSTNAME
  const acceptance = openAcceptance({
    connection,
    name: 'posthorn smtp accept',
    connectionsMax: 2,
    readDb,
    stageDb,
    clamd: settings.POSTHORN_CLAMD,
    hostname,
    log,
  })
  const submitters = makeSubmitters({ db: readDb, vault, log, publicUrl: publicUrl(settings) })
  const heard = listen(connection, 'posthorn_access', () => submitters.forget())
  const refusals = makeRefusalBook(stageDb, log)
  const acceptMail = makeAcceptMail(acceptance.tools)
  const policy = submissionPolicies({
    doors: { ...submitters, acceptMail, noteRefused: (refused) => refusals.note(refused) },
    guesses: new Guesses(),
    isDatabaseAway,
    log,
    now: () => acceptance.tools.ids.now(),
  })
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
    room: new ContentRoom({
      ...withinMemoryOverSmtp(log),
      bytesMax: limits.smtpContentInFlightBytesMax,
      shareBytesMax: limits.submissionContentOfWorkspaceBytesMax,
      smallBytesMax: limits.smtpBlockBytes,
    }),
    sessions: new Tally(),
  }
  return {
    services: [
      starting('smtp ids', () => acceptance.tools.ids.synchronize()),
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
      ...acceptance.closing,
      () => heard.stop(),
      () => refusals.quiet(),
      () => submitters.quiet(),
      ...closeAll(readDb, stageDb),
    ],
  }
}
