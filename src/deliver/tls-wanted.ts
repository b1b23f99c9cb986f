// Does a host refuse in clear text because it wants TLS (RFC 3207 4: `530 Must issue a STARTTLS command first`)? Then its TLS may work the
// next time, and nobody's address is to blame. Any other refusal that only speaks of TLS, or of somebody named so, is what it says. Pure.
import type { SmtpReply } from '../mail/smtp-reply.ts'

/** Encryption needed, and needed for a login (IANA's registry of RFC 5248): those say it alone, as 538 does (RFC 4954). */
const codes = /^5\.7\.1[01]$/
/** The subjects of RFC 3463 that such a refusal has: none, protocol, security. The others are addresses, mailboxes, systems, routes, content. */
const subjects = /^5\.[057]\./
const tlsWords = /(?<![\w-])(?:start-?)?tls(?:v?[\d.]+)?(?![\w-])|encrypt/i
const demands =
  /\b(?:must|needs?|needed|requir(?:es?|ed|ing)|mandatory|enforced|enabled?|expected|issue|use|only|first|without|unencrypted)\b/i

/** Of a refusal on a host that has offered STARTTLS. */
export function wantsTls({ code, enhancedCode, text }: SmtpReply): boolean {
  if (code < 500) return false
  if (code === 538 || codes.test(enhancedCode ?? '')) return true
  if (enhancedCode !== undefined && !subjects.test(enhancedCode)) return false
  const words = withoutNames(text)
  if (!tlsWords.test(words)) return false
  return code === 530 || enhancedCode?.startsWith('5.7.') === true || demands.test(words)
}

/** Without addresses, host names and URLs: nobody's name may decide. `TLS/SSL` and `TLSv1.2` are none. */
function withoutNames(text: string): string {
  return text
    .split(/\s+/)
    .filter((token) => !/[@<]|:\/|[a-z0-9-]\.[a-z]/i.test(token))
    .join(' ')
}
