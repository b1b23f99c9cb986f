// The HTML of a mail as an answer: whatever the mail says, no script, no form, no way out, nothing from anywhere; also where somebody opens it
// outside of its frame.
import type { FastifyReply } from 'fastify'
import { framedHtml, type PictureOf } from '../../mail/mail-preview.ts'

const policy = [
  'sandbox',
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'",
].join('; ')

export function framedMail(reply: FastifyReply, html: string, pictureOf?: PictureOf): Buffer {
  reply.headers({
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy,
    'x-dns-prefetch-control': 'off',
  })
  return Buffer.from(framedHtml(html, pictureOf))
}
