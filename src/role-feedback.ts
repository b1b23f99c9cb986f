// The role `feedback`: the bounce mailbox, where reports of receiving providers arrive by mail.
import { readFileSync } from 'node:fs'
import { openFeedback } from './open-feedback.ts'
import type { Role, RoleTools } from './role.ts'
import { feedbackServer } from './smtp/feedback.ts'

export function feedback(tools: RoleTools): Role {
  const { settings, log } = tools
  const opened = openFeedback(tools)
  const { POSTHORN_TLS_CERT: cert, POSTHORN_TLS_KEY: key } = settings
  const server = feedbackServer({
    host: settings.POSTHORN_FEEDBACK_HOST,
    port: settings.POSTHORN_FEEDBACK_PORT,
    hostname: settings.POSTHORN_HOSTNAME,
    ...(cert !== undefined &&
      key !== undefined && { tls: { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') } }),
    feedback: opened.feedback,
    log,
  })
  return { services: [server], closing: opened.closing }
}
