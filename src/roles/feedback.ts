// The role `feedback`: the bounce mailbox, where reports of receiving providers arrive by mail.
import { givenCertificate, renewals } from '../base/certificate.ts'
import { openFeedback } from './open-feedback.ts'
import type { Role, RoleTools } from './role.ts'
import { feedbackServer } from '../smtp/feedback.ts'

export function feedback(tools: RoleTools): Role {
  const { settings, log } = tools
  const tls = givenCertificate(settings)
  const opened = openFeedback(tools)
  const server = feedbackServer({
    host: settings.POSTHORN_FEEDBACK_HOST,
    port: settings.POSTHORN_FEEDBACK_PORT,
    from: { host: 'POSTHORN_FEEDBACK_HOST', port: 'POSTHORN_FEEDBACK_PORT' },
    hostname: settings.POSTHORN_HOSTNAME,
    proxies: settings.POSTHORN_SMTP_PROXIES,
    ...(tls !== undefined && { tls, renewed: renewals(settings, tls, log).renewed }),
    feedback: opened.feedback,
    log,
  })
  return { services: [server], closing: opened.closing }
}
