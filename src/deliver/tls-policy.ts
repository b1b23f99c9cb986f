// How each mail host of a domain must be spoken to: DANE before MTA-STS before "encrypted where offered" (RFC 8461 section 2). DANE counts
// only with a resolver that nobody else can speak for and that has shown lately that it validates: it vouches for a signed name and
// refuses a forged one. A host that its policy rules out is not spoken to; when none is left the message waits (decisions B, `tls`).
import { limits } from '../config.ts'
import { usableTlsa, type DaneRule } from './dane-rfc7672.ts'
import type { Dns } from '../base/dns.ts'
import { doneFor } from '../base/turns.ts'
import { validation, type Probes, type Validation } from '../base/dnssec.ts'
import { stsAllows } from './mta-sts-rfc8461.ts'
import type { StsPolicies } from './mta-sts.ts'
import type { MailHost } from './resolve.ts'

export type TlsPolicy =
  /** `unsure`: nobody has said whether the resolver validates, so that it is soon asked again. */
  | { readonly kind: 'opportunistic'; readonly unsure?: true }
  | { readonly kind: 'dane'; readonly rule: DaneRule }
  | { readonly kind: 'mta_sts' }
  /** Not to be spoken to. */
  | { readonly kind: 'ruled_out' }

export interface TlsPolicies {
  /** The rule for each host name. */
  policiesFor(domain: string, hosts: readonly MailHost[], port: number): Promise<ReadonlyMap<string, TlsPolicy>>
}

export function makeTlsPolicies(
  dns: Dns,
  sts: StsPolicies,
  probes: Probes,
  now = () => performance.now(),
): TlsPolicies {
  const validatesNow = makeSelfTest(dns, probes, now)

  const policiesFor = async (domain: string, hosts: readonly MailHost[], port: number) => {
    const names = [...new Map(hosts.map((each) => [each.host, each]))]
    const [policy, ...dane] = await Promise.all([
      sts.policyFor(domain),
      ...names.map(async ([, host]) =>
        !host.secure ? undefined : daneBy(await validatesNow(), () => daneOf(dns, domain, host, port)),
      ),
    ])
    const found = names.map(([name], index): [string, TlsPolicy] => {
      const own = dane[index]
      if (own !== undefined && own !== 'unsure') return [name, own]
      if (policy?.mode !== 'enforce')
        return [name, { kind: 'opportunistic', ...(own === 'unsure' && { unsure: true }) }]
      return [name, { kind: stsAllows(policy, name) ? 'mta_sts' : 'ruled_out' }]
    })
    return new Map(found)
  }
  return { policiesFor }
}

const daneBy = (trust: Validation, find: () => ReturnType<typeof daneOf>) =>
  trust === 'yes' ? find() : trust === 'unknown' ? ('unsure' as const) : undefined

/** Undefined where the host has no signed TLSA record. A question without an answer rules it out: an attacker could be why (2.1.2). */
async function daneOf(
  dns: Dns,
  domain: string,
  { host, canonical }: MailHost,
  port: number,
): Promise<TlsPolicy | undefined> {
  for (const base of new Set([canonical, host])) {
    const { kind, records, secure } = await dns.ask(`_${port}._tcp.${base}`, 'TLSA')
    if (kind === 'failure') return { kind: 'ruled_out' }
    if (kind === 'found' && secure)
      return { kind: 'dane', rule: { records: usableTlsa(records), base, names: [...new Set([base, host, domain])] } }
  }
  return undefined
}

interface Tested {
  /** The servers. */
  readonly of: string
  readonly answer: Promise<Validation>
  readonly until: number
  readonly vouchedAt: number
  readonly isSilent: boolean
}

/**
 * Whether the AD bit of these servers is worth something. A wrong answer takes their word away at once. Silence does not: whoever can make a
 * datagram vanish could else have the next mails in clear text. The last yes then counts on, for a day at most, and they are tested anew every
 * few seconds. Without one they are not believed, and nothing that was decided so is kept for longer.
 */
function makeSelfTest(dns: Dns, probes: Probes, now: () => number): () => Promise<Validation> {
  let last: Tested | undefined

  const test = async (of: string, before: Tested | undefined): Promise<Validation> => {
    // Trouble of this machine says nothing about them either; and nobody would ask again, were it the answer.
    const said = await validation(dns, probes).catch((): Validation => 'unknown')
    const vouchedAt = { yes: now(), no: -Infinity, unknown: before?.vouchedAt ?? -Infinity }[said]
    const keepMs = { yes: limits.dnssecTestMs, no: limits.dnssecRetestMs, unknown: limits.dnssecSilentRetestMs }[said]
    const counts = now() - vouchedAt <= limits.dnssecVouchedMs ? 'yes' : said
    const [answer, isSilent] = [Promise.resolve(counts), said === 'unknown']
    if (last?.of === of) last = { of, answer, until: now() + keepMs, vouchedAt, isSilent }
    return counts
  }

  return () => {
    const of = dns.servers.join(' ')
    // What others have shown says nothing about these.
    const before = last?.of === of ? last : undefined
    if (before !== undefined && now() < before.until) return before.answer
    const tested = doneFor('', () => test(of, before))
    // All wait for it; but for what was known behind silence, which may last.
    const answer = before?.isSilent === true ? before.answer : tested
    last = {
      of,
      answer,
      until: Infinity,
      vouchedAt: before?.vouchedAt ?? -Infinity,
      isSilent: before?.isSilent ?? false,
    }
    return answer
  }
}
