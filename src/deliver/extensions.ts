// What a server offers in its EHLO reply (RFC 5321 4.1.1.1), and the MAIL command that makes use of it.
import type { Mail } from './conversation.ts'

export interface Extensions {
  readonly pipelining: boolean
  readonly eightBit: boolean
  readonly utf8: boolean
  readonly startTls: boolean
  /** 0: no limit told. */
  readonly sizeMax: number
  readonly auth: ReadonlySet<string>
}

export const noExtensions: Extensions = {
  pipelining: false,
  eightBit: false,
  utf8: false,
  startTls: false,
  sizeMax: 0,
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
    sizeMax: /^\d{1,15}$/.test(size) ? Number(size) : 0,
    auth: new Set(offers.get('AUTH')),
  }
}

/** 8-bit content comes here only where 8BITMIME is offered (conversation.ts). What we compose ourselves is 7-bit (decisions B). */
export function mailCommand(mail: Mail, offers: Extensions): string {
  let command = `MAIL FROM:<${path(mail.envelopeFrom)}>`
  if (offers.sizeMax > 0) command += ` SIZE=${mail.size}`
  if (offers.eightBit && mail.needs8bit) command += ' BODY=8BITMIME'
  if (mail.needsSmtputf8) command += ' SMTPUTF8'
  return command
}

/** Addresses were parsed at the border; should one get here that could end the command, it is our fault. */
export function path(address: string): string {
  if (/[\x00-\x20<>\x7f]/.test(address))
    throw new Error('an envelope address with a control character, space or bracket')
  return address
}
