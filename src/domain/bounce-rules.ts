// What a refusal or a report says about the recipient, as one table: the first row that matches decides. Wrongly suppressing a good
// recipient is the costlier error, so vetoes (temporary, sender, full, content, policy, system) stand before the rows that suppress.
// Names of rules are kept with events, suppressions and evidence: they never change their meaning. Decisions C.
import { listOperators, words } from './bounce-words.ts'

export const bounceClasses = [
  'success',
  'information',
  'delay',
  'temporary',
  'sender',
  'capacity',
  'content',
  'policy',
  'system',
  'bad_mailbox',
  'bad_domain',
  'inactive',
  'filtered',
  'owner_changed',
  'unknown',
  'local',
] as const
export type BounceClass = (typeof bounceClasses)[number]

/** Where it was said: in reply to a command, to the final dot (`eod`), in a report that came later, or by ourselves (`local`). */
export type BounceStage = 'mail' | 'rcpt' | 'data' | 'eod' | 'report' | 'local'
export type ReportAction = 'delivered' | 'relayed' | 'expanded' | 'delayed' | 'failed'

export interface BounceEvidence {
  /** The basic code; where it is missing it is looked for in the text of a report. */
  readonly code?: number | undefined
  /** RFC 3463. A specific one inside the text of a report is preferred. */
  readonly enhancedCode?: string | undefined
  readonly text: string
  /** Of a report: words beside the text that name the command which was answered. */
  readonly command?: string | undefined
  readonly stage: BounceStage
  /** RFC 3464 2.3.3. */
  readonly action?: ReportAction | undefined
  /** A text for people that says of nobody that he could not be reached: its words prove nothing about the recipient, only a code does. */
  readonly namesNobody?: true
}

export interface BounceVerdict {
  readonly class: BounceClass
  readonly rule: string
  readonly event: 'delivered' | 'soft_bounce' | 'hard_bounce' | undefined
  /** True exactly for hard bounces: the recipient itself is bad. */
  readonly suppress: boolean
  /** The same mail would be refused again. */
  readonly permanent: boolean
}

/** What a verdict of this class tells the customer. */
export const bounceEventOf = {
  success: 'delivered',
  information: undefined,
  delay: 'soft_bounce',
  temporary: 'soft_bounce',
  sender: 'soft_bounce',
  capacity: 'soft_bounce',
  content: 'soft_bounce',
  policy: 'soft_bounce',
  system: 'soft_bounce',
  bad_mailbox: 'hard_bounce',
  bad_domain: 'hard_bounce',
  inactive: 'hard_bounce',
  filtered: 'soft_bounce',
  owner_changed: 'hard_bounce',
  unknown: 'soft_bounce',
  local: undefined,
} as const satisfies Record<BounceClass, BounceVerdict['event']>

/** Every condition that a row names must hold. */
interface Rule {
  readonly name: string
  readonly class: BounceClass
  readonly actions?: readonly ReportAction[]
  readonly stages?: readonly BounceStage[]
  readonly temporary?: boolean
  readonly code?: RegExp
  readonly enhanced?: RegExp
  /** False: no enhanced code, or one that says nothing (`5.0.0`, `5.1.0`). */
  readonly specific?: false
  /** False: no basic code either. Old systems report their own findings in words alone, of somebody whom they name. */
  readonly coded?: false
  /** In the text without addresses, host names and URLs: nobody's name may decide. */
  readonly words?: RegExp
  /** In the whole text. */
  readonly raw?: RegExp
}

const afterVetoes: readonly BounceStage[] = ['rcpt', 'data', 'eod', 'report']

/** Raised with every change of the table: what is kept beside a rule's name says which table it was. */
export const bounceRulesVersion = 6

export const bounceRules: readonly Rule[] = [
  // Not a refusal at all
  { name: 'local-finding', class: 'local', stages: ['local'] },
  { name: 'report-delivered', class: 'success', actions: ['delivered'] },
  { name: 'report-relayed', class: 'information', actions: ['relayed', 'expanded'] },
  { name: 'report-delayed', class: 'delay', actions: ['delayed'] },
  { name: 'accepted', class: 'success', stages: ['eod'], code: /^2\d\d$/ },
  { name: 'no-refusal', class: 'information', code: /^[123]\d\d$/ },

  // Quirks of providers, and between them everything temporary
  {
    name: 'gmail-rate',
    class: 'policy',
    enhanced: /^[45]\.2\.1$/,
    words: /\b(receiving|receive) (e?mail|messages) at a rate\b/,
  },
  { name: 'temporary-reply', class: 'temporary', temporary: true },
  {
    name: 'outlook-access-denied',
    class: 'bad_mailbox',
    stages: afterVetoes,
    code: /^550$/,
    enhanced: /^5\.4\.1$/,
    words: /\brecipient address(es)? rejected ?: access denied\b/,
  },
  // Exchange writes 5.1.10, which is a null MX elsewhere, for a mailbox that its directory does not know.
  {
    name: 'outlook-recipient-not-found',
    class: 'bad_mailbox',
    stages: afterVetoes,
    enhanced: /^5\.1\.10$/,
    raw: /recipientnotfound|recipient not found/,
  },
  { name: 'gmail-mailbox-full', class: 'capacity', code: /^552$/, enhanced: /^5\.2\.2$/ },
  { name: 'gmail-unauthenticated', class: 'policy', code: /^550$/, enhanced: /^5\.7\.26$/ },
  { name: 'microsoft-unauthenticated', class: 'policy', code: /^550$/, enhanced: /^5\.7\.515$/ },
  {
    name: 'yahoo-no-account',
    class: 'bad_mailbox',
    stages: afterVetoes,
    code: /^554$/,
    raw: /\buser doesn'?t have an? \S{1,255} account\b/,
  },
  // Also where AOL's mail is: whether there is such an account is said behind DATA alone.
  {
    name: 'yahoo-mailbox-not-found',
    class: 'bad_mailbox',
    stages: afterVetoes,
    code: /^55[24]$/,
    raw: /\brequested mail action aborted, mailbox not found\b|\bdelivery error: dd (not a valid recipient|\S{1,255} is no longer valid)\b/,
  },
  { name: 'yahoo-blocklist', class: 'policy', code: /^553$/, raw: /\[bl\d{0,4}\]/ },
  { name: 'orange-mailbox-full', class: 'capacity', enhanced: /^5\.1\.1$/, raw: /\bofr_?417\b/ },
  // Under 5.1.1: the address is on Amazon's own list, also for a complaint, or because of somebody else's mail. Nobody was asked.
  {
    name: 'ses-suppression-list',
    class: 'policy',
    stages: ['report'],
    raw: /\bamazon ses (has suppressed sending|did not send the message) to this address\b/,
  },
  // Cloudmark's gateways (Comcast, Cox and others) say no more about an address that they do not know.
  {
    name: 'cloudmark-address-rejected',
    class: 'bad_mailbox',
    stages: ['rcpt', 'report'],
    code: /^550$/,
    enhanced: /^5\.1\.0$/,
    words: /^(smtp; ?)?(550[ -])?5\.1\.0 ?(: )?address rejected\b/,
  },
  // Cisco's (IronPort's) gateways say the same with their sign for a number, whatever stands behind it.
  {
    name: 'cisco-address-rejected',
    class: 'bad_mailbox',
    stages: ['rcpt', 'report'],
    code: /^550$/,
    enhanced: /^5\.1\.0$/,
    words: /#5\.1\.0 address rejected\b/,
  },
  // Also for addresses that it never had.
  {
    name: 'hotmail-mailbox-unavailable',
    class: 'bad_mailbox',
    stages: ['rcpt', 'report'],
    code: /^550$/,
    enhanced: /^5\.5\.0$/,
    words: /\brequested action not taken: mailbox unavailable\b/,
  },
  {
    name: 'yandex-no-such-user',
    class: 'bad_mailbox',
    stages: afterVetoes,
    code: /^550$/,
    enhanced: /^5\.7\.1$/,
    words: /^(550[ -])?(5\.7\.1 )?no such user!/,
  },
  // Exchange Online hands on in its own words what the other side said.
  {
    name: 'exchange-unknown-recipient',
    class: 'bad_mailbox',
    stages: ['report'],
    enhanced: /^5\.1\.351$/,
    words: /\bunknown recipient\b/,
  },
  {
    name: 'exchange-domain-does-not-exist',
    class: 'bad_domain',
    stages: ['report'],
    enhanced: /^5\.4\.(4|310)$/,
    raw: /\bsmtpsend\.dns\.nonexistentdomain\b|\bdns domain \S{1,255} does not exist\b/,
  },
  // sendmail's own mailbox program, whose exit it reports as a broken mailer.
  {
    name: 'local-mailer-unknown-user',
    class: 'bad_mailbox',
    stages: ['report'],
    actions: ['failed'],
    raw: /\bmail\.local: unknown (user|name)\b|\bvdeliver: invalid or unknown virtual user\b/,
  },
  // The same operators write 416 behind 5.1.1 and behind 5.5.0.
  {
    name: 'orange-invalid-recipient',
    class: 'bad_mailbox',
    stages: afterVetoes,
    code: /^5\d\d$/,
    raw: /\binvalid recipient\. (ofr|lpn\d{1,4})_416\b/,
  },

  // Vetoes
  { name: 'sender-code', class: 'sender', enhanced: /^5\.(1\.[78]|7\.27)$/ },
  { name: 'sender-words', class: 'sender', words: words.sender },
  { name: 'relaying-denied', class: 'sender', words: words.relaying },
  { name: 'mailbox-full-code', class: 'capacity', enhanced: /^5\.2\.2$/ },
  { name: 'mailbox-full-words', class: 'capacity', words: words.full },
  { name: 'mailbox-full-elsewhere', class: 'capacity', words: words.fullElsewhere },
  { name: 'content-code', class: 'content', enhanced: /^5\.(2\.3|3\.4|6\.\d+)$/ },
  { name: 'message-size-words', class: 'content', words: words.size },
  { name: 'content-words', class: 'content', words: words.content },
  { name: 'policy-code', class: 'policy', enhanced: /^5\.7\.(?!13$|17$|18$)\d+$/ },
  { name: 'policy-words', class: 'policy', words: words.policy },
  { name: 'policy-list-operator', class: 'policy', raw: listOperators },
  // RFC 7504: the host takes no mail at all, or none from us.
  { name: 'host-refuses-mail', class: 'policy', code: /^521$/ },
  // What passes by itself, although the code says otherwise.
  { name: 'temporary-words', class: 'temporary', words: words.passing },
  { name: 'list-expansion-code', class: 'system', enhanced: /^5\.2\.4$/ },
  // Before the other 5.4.x, and only where another system tells us: in our own session the DNS is ours to read.
  { name: 'host-not-found', class: 'bad_domain', stages: ['report'], enhanced: /^5\.4\.4$/, words: words.hostNotFound },
  { name: 'routing-code', class: 'system', enhanced: /^5\.4\.\d+$/ },
  // A gateway that asks the host behind it has 5.1.1 for whatever kept it from an answer (Postfix: "undeliverable address: ...").
  { name: 'routing-words', class: 'system', stages: afterVetoes, enhanced: /^5\.1\.[01]$/, words: words.routing },
  { name: 'mail-system-code', class: 'system', enhanced: /^5\.3\.\d+$/ },
  { name: 'protocol-code', class: 'system', enhanced: /^5\.5\.\d+$/ },
  { name: 'syntax-reply', class: 'system', code: /^50[0-4]$/ },
  { name: 'parameters-reply', class: 'system', code: /^555$/ },
  // Refused before the recipient was looked at: nothing below can be about the recipient.
  { name: 'refused-at-mail', class: 'sender', stages: ['mail'] },

  // The recipient itself
  { name: 'bad-mailbox-code', class: 'bad_mailbox', enhanced: /^5\.1\.[136]$/ },
  { name: 'bad-domain-code', class: 'bad_domain', stages: ['report'], enhanced: /^5\.1\.(2|10)$/ },
  { name: 'bad-domain-reply', class: 'bad_domain', stages: ['report'], code: /^556$/ },
  { name: 'inactive-code', class: 'inactive', enhanced: /^5\.(2\.1|7\.13)$/ },
  { name: 'inactive-reply', class: 'inactive', code: /^525$/ },
  { name: 'inactive-words', class: 'inactive', code: /^5\d\d$/, words: words.inactive },
  {
    name: 'user-unknown-words',
    class: 'bad_mailbox',
    stages: ['rcpt', 'report'],
    code: /^55[013]$/,
    specific: false,
    words: words.userUnknown,
  },
  // RFC 5321's own sentence for 550.
  {
    name: 'mailbox-unavailable-words',
    class: 'bad_mailbox',
    stages: ['rcpt', 'report'],
    code: /^550$/,
    specific: false,
    words: /\brequested action not taken: mailbox unavailable\b/,
  },
  // A filter that has read the content speaks the same words.
  {
    name: 'user-unknown-after-data',
    class: 'filtered',
    stages: ['data', 'eod'],
    specific: false,
    words: words.userUnknown,
  },
  // A mail system that reports its own finding, without any code (RFC 3464 asks for none in free text). After every veto.
  { name: 'exim-unrouteable', class: 'bad_domain', stages: ['rcpt', 'report'], code: /^550$/, specific: false, words: words.unrouteable }, // prettier-ignore
  { name: 'exim-unrouteable-report', class: 'bad_domain', stages: ['report'], actions: ['failed'], coded: false, specific: false, words: words.unrouteable }, // prettier-ignore
  { name: 'sendmail-host-unknown', class: 'bad_domain', stages: ['report'], code: /^550$/, specific: false, raw: /\.\.\. ?(host unknown|unknown host)\b/ }, // prettier-ignore
  { name: 'host-not-found-words', class: 'bad_domain', stages: ['report'], actions: ['failed'], coded: false, specific: false, words: words.hostNotFound }, // prettier-ignore
  { name: 'inactive-report-words', class: 'inactive', stages: ['report'], actions: ['failed'], coded: false, specific: false, words: words.inactive }, // prettier-ignore
  { name: 'user-unknown-report-words', class: 'bad_mailbox', stages: ['report'], actions: ['failed'], coded: false, specific: false, words: words.userUnknown }, // prettier-ignore
  { name: 'owner-changed-code', class: 'owner_changed', enhanced: /^5\.7\.1[78]$/ },
]

const noRule: Pick<Rule, 'name' | 'class'> = { name: 'no-rule', class: 'unknown' }

/** Total: whatever a stranger wrote, there is a verdict. */
export function classify(evidence: BounceEvidence): BounceVerdict {
  const facts = factsOf(evidence)
  const rule = bounceRules.find((candidate) => matches(candidate, facts)) ?? noRule
  const event = bounceEventOf[rule.class]
  const bounced = event !== undefined && event !== 'delivered'
  const refused = facts.permanentCode || facts.action === 'failed'
  return {
    class: rule.class,
    rule: rule.name,
    event,
    suppress: event === 'hard_bounce',
    permanent: bounced && rule.class !== 'delay' && refused && !facts.temporary,
  }
}

interface BounceFacts {
  readonly stage: BounceStage
  readonly action: ReportAction | undefined
  readonly namesNobody: boolean
  readonly code: number
  readonly enhanced: string
  readonly specific: boolean
  readonly temporary: boolean
  readonly permanentCode: boolean
  readonly raw: string
  readonly words: string
}

function matches(rule: Rule, facts: BounceFacts): boolean {
  if (rule.actions !== undefined && (facts.action === undefined || !rule.actions.includes(facts.action))) return false
  if (rule.stages !== undefined && !rule.stages.includes(facts.stage)) return false
  if (rule.temporary !== undefined && rule.temporary !== facts.temporary) return false
  if (rule.code !== undefined && !rule.code.test(String(facts.code))) return false
  if (rule.enhanced !== undefined && !rule.enhanced.test(facts.enhanced)) return false
  if (rule.specific === false && facts.specific) return false
  if (rule.coded === false && (facts.code !== 0 || facts.namesNobody)) return false
  if (rule.words !== undefined && !rule.words.test(facts.words)) return false
  return rule.raw === undefined || rule.raw.test(facts.raw)
}

const textCharactersMax = 2_000
const codeInText = /(?:^|[^\d.])([45]\d\d)(?=[ \-:]|$)/
const enhancedBehindCode = /(?:^|[^\d.])[45]\d\d[ -]{1,3}['"#(]?([45]\.\d{1,3}\.\d{1,3})(?![\d.]\d|\d)/
/** `5.1.1 text`, `text (#5.1.1)`, `smtp; 5.1.0 - text`; not the version of somebody's software. */
const enhancedInText = /(?:^|[#(;:] ?)([45]\.\d{1,3}\.\d{1,3})(?!\.?\d)/

function factsOf(evidence: BounceEvidence): BounceFacts {
  const raw = evidence.text.slice(0, textCharactersMax).toLowerCase().replace(/\s+/g, ' ').trim()
  const inReport = evidence.stage === 'report'
  const given = /^[245]\.\d{1,3}\.\d{1,3}/.exec(evidence.enhancedCode ?? '')?.[0] ?? ''
  const code = evidence.code ?? (inReport ? Number(codeInText.exec(raw)?.[1] ?? 0) : 0)
  const enhanced = enhancedOf(given, raw, inReport)
  return {
    stage: stageOf(evidence, raw),
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
  const behindCode = inReport ? (enhancedBehindCode.exec(raw)?.[1] ?? '') : ''
  const anywhere = enhancedInText.exec(raw)?.[1] ?? ''
  return (
    [behindCode, given, anywhere].find(isSpecific) ?? [behindCode, given, anywhere].find((each) => each !== '') ?? ''
  )
}

function isSpecific(enhanced: string): boolean {
  return /^[45]\.[1-9]\d*\.[1-9]\d*$/.test(enhanced)
}

/** Without addresses, URLs and host names: `noreply@spam-report.example` is not about spam. */
function withoutNames(raw: string): string {
  return raw
    .split(' ')
    .filter((token) => !token.includes('@') && !token.includes('/') && !/[a-z0-9-]\.[a-z]/.test(token))
    .join(' ')
}
