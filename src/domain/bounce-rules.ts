// What a refusal or a report says about the recipient, as one table: the first row that matches decides. Wrongly suppressing a good
// recipient is the costlier error, so vetoes (temporary, sender, full, content, policy, system) stand before the rows that suppress.
// Names of rules are kept with events, suppressions and evidence: they never change their meaning. Decisions C.
import type { RecipientAction } from '../mail/dsn-rfc3464.ts'
import { factsOf, type BounceEvidence, type BounceFacts, type BounceStage } from './bounce-facts.ts'
import { listOperators, words } from './bounce-words.ts'

export type { BounceEvidence, BounceStage } from './bounce-facts.ts'

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
  readonly actions?: readonly RecipientAction[]
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
export const bounceRulesVersion = 8

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
  // Stalwart's code for both of its refusals is a domain's elsewhere; the other one is `Relay not allowed`.
  {
    name: 'stalwart-no-mailbox',
    class: 'bad_mailbox',
    stages: ['rcpt', 'report'],
    code: /^550$/,
    enhanced: /^5\.1\.2$/,
    words: /^(smtp; ?)?(550[ -])?5\.1\.2 mailbox does not exist\b/,
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
  // Exchange Online's own words for what the other side said, which stands behind them and may be something else.
  {
    name: 'exchange-unknown-recipient',
    class: 'bad_mailbox',
    stages: ['report'],
    enhanced: /^5\.1\.351$/,
    words: /\bunknown recipient\b/,
  },
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
