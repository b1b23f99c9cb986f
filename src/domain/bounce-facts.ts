// What a refusal or a report says, as the rules of bounce-rules.ts take it: its codes, and which of them to believe; where it was said; its words without names. Pure
// and total: strangers wrote it.
import type { RecipientAction } from '../mail/dsn-rfc3464.ts'

/** Where it was said: in reply to a command, to the final dot (`eod`), in a report that came later, or by ourselves (`local`). */
export type BounceStage = 'mail' | 'rcpt' | 'data' | 'eod' | 'report' | 'local'

export interface BounceEvidence {
  /** The basic code; where it is missing it is looked for in the text of a report. */
  readonly code?: number | undefined
  /** RFC 3463. A specific one inside the text of a report is preferred. */
  readonly enhancedCode?: string | undefined
  /** It is the status of a delivery report: who wrote that may have made it of the basic code. */
  readonly isStatus?: true
  readonly text: string
  /** Of a report: words beside the text that name the command which was answered. */
  readonly command?: string | undefined
  readonly stage: BounceStage
  /** RFC 3464 2.3.3. */
  readonly action?: RecipientAction | undefined
  /** A text for people that says of nobody that he could not be reached: its words prove nothing about the recipient, only a code does. */
  readonly namesNobody?: true
}

export interface BounceFacts {
  readonly stage: BounceStage
  readonly action: RecipientAction | undefined
  readonly namesNobody: boolean
  readonly code: number
  readonly enhanced: string
  readonly specific: boolean
  readonly temporary: boolean
  readonly permanentCode: boolean
  readonly raw: string
  readonly words: string
}

const textCharactersMax = 2_000
const codeInText = /(?:^|[^\d.])([45]\d\d)(?=[ \-:,]|$)/
const enhancedBehindCode = /(?:^|[^\d.])[45]\d\d[ -]{1,3}['"#(]?([45]\.\d{1,3}\.\d{1,3})(?![\d.]\d|\d)/
/** `5.1.1 text`, `text (#5.1.1)`, `smtp; 5.1.0 - text`, and Barracuda's sign for "no such user" before the code; not the version of somebody's software. */
const enhancedInText = /(?:^|[#(;:] ?|\bcuda_nsu )([45]\.\d{1,3}\.\d{1,3})(?!\.?\d)/

export function factsOf(evidence: BounceEvidence): BounceFacts {
  const raw = evidence.text.slice(0, textCharactersMax).toLowerCase().replace(/\s+/g, ' ').trim()
  const inReport = evidence.stage === 'report'
  const given = /^[245]\.\d{1,3}\.\d{1,3}/.exec(evidence.enhancedCode ?? '')?.[0] ?? ''
  const code = evidence.code ?? (inReport ? Number(codeInText.exec(raw)?.[1] ?? 0) : 0)
  const made = evidence.isStatus === true ? translationOf(given, raw) : undefined
  const enhanced = enhancedOf(made === undefined ? given : '', raw, inReport)
  return {
    stage: made === 'behindData' ? 'eod' : stageOf(evidence, raw),
    action: evidence.action,
    namesNobody: evidence.namesNobody === true,
    code,
    enhanced,
    specific: isSpecific(enhanced),
    // One of them is enough: a report whose own Status is 4.x.x has only given up waiting.
    temporary: (code >= 400 && code < 500) || enhanced.startsWith('4.') || given.startsWith('4.'),
    permanentCode: (code >= 500 && code < 600) || enhanced.startsWith('5.'),
    raw,
    words: withoutNames(raw),
  }
}

/** Postfix, Exim, sendmail, qmail: `in reply to MAIL FROM command`, `after pipelined MAIL FROM:<...>`, `>>> MAIL From:<...>`. */
const beforeRecipient =
  /\bin reply to (mail from|ehlo|helo|auth|starttls)\b|\bafter (pipelined )?(mail from:|ehlo|helo|initial connection)|\brefused to talk to me\b|>>> mail from:(?!.*>>> (rcpt|data)\b)|\bbut (sender was rejected|my name was rejected|greeting failed)\b/
const behindData =
  /\bdata command\b|\bend of (data|message)\b|\bafter (pipelined )?data:|\bfailed after i sent the message\b/

/** A report, or a gateway that quotes the host behind it, may name a command before RCPT: nobody had heard of the recipient. Behind DATA a filter has read all. */
function stageOf({ stage, command = '' }: BounceEvidence, raw: string): BounceStage {
  const words = stage === 'report' || stage === 'rcpt' ? `${raw} ${command.toLowerCase()}` : ''
  return beforeRecipient.test(words) ? 'mail' : stage === 'report' && behindData.test(words) ? 'eod' : stage
}

/** The one that the remote server wrote behind its code, then the given one, then any in the text; specific ones first. */
function enhancedOf(given: string, raw: string, inReport: boolean): string {
  // Exchange Online has a code of its own before the reply that it quotes: `550 5.1.351 Remote server returned ... -> 550 5.7.1 ...`.
  const quoted = enhancedBehindCode.exec(raw.slice(raw.lastIndexOf(' -> ') + 1))
  const behindCode = inReport ? ((quoted ?? enhancedBehindCode.exec(raw))?.[1] ?? '') : ''
  const anywhere = enhancedInText.exec(raw)?.[1] ?? ''
  return (
    [behindCode, given, anywhere].find(isSpecific) ?? [behindCode, given, anywhere].find((each) => each !== '') ?? ''
  )
}

/**
 * sendmail, and what is made of it (Proofpoint), writes a status for each basic code that came without one: "550 Administrative prohibition" becomes 5.1.1 in reply
 * to RCPT, and 5.2.0 behind DATA, whatever the words are. It says no more than the code, and where that came.
 */
function translationOf(given: string, raw: string): keyof typeof translations | undefined {
  const code = /^(?:smtp; ?)?(55[013])(?=[ -]|$)/.exec(raw)?.[1]
  if (code === undefined || enhancedBehindCode.test(raw)) return undefined
  const names = ['anywhere', 'behindData'] as const
  return names.find((name) => translations[name].get(code) === given)
}

/** Its functions smtprcptstat and smtptodsn. */
const translations = {
  anywhere: new Map([
    ['550', '5.1.1'],
    ['551', '5.1.6'],
    ['553', '5.1.3'],
  ]),
  behindData: new Map([['550', '5.2.0']]),
}

function isSpecific(enhanced: string): boolean {
  return /^[45]\.[1-9]\d*\.[1-9]\d*$/.test(enhanced)
}

/** Without addresses, URLs and host names: `noreply@spam-report.example` is not about spam. */
function withoutNames(raw: string): string {
  return raw
    .replace(/(@[^ @:]{1,255}):(?=[a-z])/g, '$1: ')
    .split(' ')
    .filter((token) => !token.includes('@') && !token.includes('/') && !/[a-z0-9-]\.[a-z]/.test(token))
    .join(' ')
}
