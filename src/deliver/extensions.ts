// What a server offers in its EHLO reply (RFC 5321 4.1.1.1), and the commands that make use of it.
import type { EmailAddress } from '../mail/address.ts'
import type { SmtpReply } from '../mail/smtp-reply.ts'
import type { Mail, SevenBit } from './conversation.ts'
import type { Login } from './route.ts'

export interface Extensions {
  readonly pipelining: boolean
  readonly eightBit: boolean
  readonly utf8: boolean
  readonly startTls: boolean
  readonly dsn: boolean
  /** 0: no limit told. */
  readonly sizeMax: number
  /** Over one connection. */
  readonly mailsMax: number
  readonly auth: ReadonlySet<string>
}

export const noExtensions: Extensions = {
  pipelining: false,
  eightBit: false,
  utf8: false,
  startTls: false,
  dsn: false,
  sizeMax: 0,
  mailsMax: Infinity,
  auth: new Set(),
}

/** The lines of an EHLO reply after the first (RFC 5321 4.1.1.1). */
export function extensionsOf(text: string): Extensions {
  const offers = new Map<string, string[]>()
  for (const line of text.split('\n').slice(1)) {
    const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/[ =]+/) // `AUTH=` is how some old servers put it
    offers.set(keyword, [...(offers.get(keyword) ?? []), ...parameters])
  }
  const size = offers.get('SIZE')?.[0] ?? ''
  return {
    pipelining: offers.has('PIPELINING'),
    eightBit: offers.has('8BITMIME'),
    utf8: offers.has('SMTPUTF8'),
    startTls: offers.has('STARTTLS'),
    dsn: offers.has('DSN'),
    sizeMax: /^\d{1,15}$/.test(size) ? Number(size) : 0,
    mailsMax: mailsMaxOf(offers.get('LIMITS') ?? []),
    auth: new Set(offers.get('AUTH')),
  }
}

/** RFC 9422 4.1, 4.3. Each of our mails has one recipient, so as many of them have no more domains. */
function mailsMaxOf(limits: readonly string[]): number {
  const told = limits.flatMap((name, at) =>
    name === 'MAILMAX' || name === 'RCPTDOMAINMAX' ? Number(limits[at + 1]) : [],
  )
  return Math.min(Infinity, ...told.filter((most) => most >= 1))
}

/** False where 8-bit content has to be converted for this server (RFC 6152 3), and nothing else stands against it. */
export function takesAsItIs(mail: Mail, { eightBit, utf8 }: Extensions): boolean {
  return !mail.needs8bit || eightBit || (mail.needsSmtputf8 && !utf8)
}

/**
 * The mail in 7-bit octets; what is armed, and how often, does not change with it. It is let go with the arm, as the mail itself, or before.
 * Undefined: it cannot be said in them.
 */
export async function sevenBitForm(mail: Mail): Promise<(Mail & SevenBit) | undefined> {
  const form = await mail.sevenBit?.()
  if (form === undefined) return undefined
  const { size } = form
  let [content, giveBack] = [form.content, form.leave?.bind(form)]
  const leave = () => {
    giveBack?.()
    content = []
    giveBack = undefined
  }
  const arm = () => {
    leave()
    return mail.arm()
  }
  return {
    ...mail,
    get content() {
      return content
    },
    size,
    needs8bit: false,
    leave,
    arm,
  }
}

/** RFC 4954: PLAIN, else LOGIN; each command with the secret behind it. None where neither is offered. */
export function authCommands({ user, password }: Login, { auth }: Extensions): (readonly [string, string])[] {
  if (auth.has('PLAIN')) return [['AUTH PLAIN ', base64(`\0${user}\0${password}`)]]
  if (!auth.has('LOGIN')) return []
  return [
    ['AUTH LOGIN', ''],
    ['', base64(user)],
    ['', base64(password)],
  ]
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')

/** 8-bit content comes here only where 8BITMIME is offered. What we compose ourselves is 7-bit (decisions B). */
export function mailCommand(mail: Mail, offers: Extensions): string {
  let command = `MAIL FROM:<${path(mail.envelopeFrom)}>`
  if (offers.sizeMax > 0) command += ` SIZE=${mail.size}`
  if (offers.eightBit && mail.needs8bit) command += ' BODY=8BITMIME'
  if (mail.needsSmtputf8) command += ' SMTPUTF8'
  // RFC 3461 4.3, 4.4: reports return the header alone, with our token in it, and the token as envelope id.
  if (offers.dsn && mail.reports !== undefined) command += ` RET=HDRS ENVID=${xtext(mail.reports.envelopeId)}`
  return command
}

/** RFC 3461 4.1, 4.2: which reports we want, and for whom, as we wrote it. */
export function rcptCommand({ recipient, reports }: Mail, offers: Extensions): string {
  const command = `RCPT TO:<${path(recipient.text)}>`
  if (!offers.dsn || reports === undefined) return command
  return `${command} NOTIFY=${reports.success ? 'SUCCESS,' : ''}FAILURE,DELAY ORCPT=${originalRecipient(recipient)}`
}

/**
 * Whether a refusal of these commands may be of what they ask for beside the mail: behind some hosts that offer DSN stands a filter that knows none of its
 * parameters (Postfix' smtpd_proxy_filter before aiosmtpd). Reports are a wish, and no mail fails for it.
 */
export function mayBeForReports({ code }: SmtpReply, { reports }: Mail, { dsn }: Extensions): boolean {
  return dsn && reports !== undefined && [455, 501, 504, 555].includes(code)
}

/** RFC 6533 3: a local part beyond ASCII is of another type, and goes raw where SMTPUTF8 is spoken. */
function originalRecipient({ text, needsSmtputf8 }: EmailAddress): string {
  return needsSmtputf8 ? `utf-8;${text.replace(/[\x00-\x20+=\\\x7f]/g, uniText)}` : `rfc822;${xtext(text)}`
}

function uniText(character: string): string {
  return `\\x{${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}}`
}

/** RFC 3461 4: printable ASCII but `+` and `=`, which are written as `+2B` and `+3D`. */
function xtext(text: string): string {
  return text.replace(
    /[^\x21-\x2a\x2c-\x3c\x3e-\x7e]/g,
    (character) => `+${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  )
}

/** Addresses were parsed at the border; should one get here that could end the command, it is our fault. */
function path(address: string): string {
  if (/[\x00-\x20<>\x7f]/.test(address))
    throw new Error('an envelope address with a control character, space or bracket')
  return address
}
