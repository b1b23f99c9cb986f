// What EHLO offers, and what MAIL may then ask for: SIZE (RFC 1870), BODY (RFC 6152), SMTPUTF8 (RFC 6531), AUTH (RFC 4954,
// heard and ignored).
import type { SmtpCommand } from '../mail/smtp-command.ts'
import type { MailParameters, Offer } from './policy.ts'
import { mechanismNames } from './login.ts'
import { replies, type Reply } from './reply.ts'

export function ehloReply(offer: Offer, secure: boolean, messageBytesMax: number): Reply {
  const mayLogIn = offer.auth === 'always' || (offer.auth === 'after_tls' && secure)
  const lines = [
    offer.hostname,
    'PIPELINING',
    `SIZE ${messageBytesMax}`,
    '8BITMIME',
    'ENHANCEDSTATUSCODES',
    ...(offer.smtputf8 ? ['SMTPUTF8'] : []),
    ...(offer.chunking ? ['CHUNKING'] : []),
    ...(offer.startTls && !secure ? ['STARTTLS'] : []),
    ...(mayLogIn ? [`AUTH ${mechanismNames}`] : []),
  ]
  return { code: 250, text: lines.join('\n') }
}

type Mail = Extract<SmtpCommand, { verb: 'MAIL' | 'RCPT' }>

const none: MailParameters = { size: undefined, body: '7BIT', smtputf8: false }

export const isAscii = (text: string): boolean => !/[^\x00-\x7f]/.test(text)

/** What MAIL asks for, or why not. */
export function readMailParameters(mail: Mail, offer: Offer, messageBytesMax: number): MailParameters | Reply {
  let { size, body, smtputf8 } = none
  for (const [keyword, value] of mail.parameters) {
    switch (keyword) {
      case 'SIZE':
        if (value === undefined || !/^\d{1,20}$/.test(value)) return replies.badParameter
        size = Number(value)
        if (size > messageBytesMax) return replies.tooLarge
        break
      case 'BODY': {
        const kind = value?.toUpperCase()
        if (kind !== '7BIT' && kind !== '8BITMIME') return replies.badParameter
        body = kind
        break
      }
      case 'SMTPUTF8':
        if (!offer.smtputf8) return replies.unknownParameter
        if (value !== undefined) return replies.badParameter
        smtputf8 = true
        break
      case 'AUTH':
        if (offer.auth === 'never') return replies.unknownParameter
        if (value === undefined) return replies.badParameter
        break
      default:
        return replies.unknownParameter
    }
  }
  if (!smtputf8 && !isAscii(mail.path)) return replies.needsSmtputf8
  return mail.parameters.length === 0 ? none : { size, body, smtputf8 }
}
