// How each mail host of a domain must be spoken to: DANE before MTA-STS before "encrypted where offered" (RFC 8461 section 2). DANE counts
// only with a resolver that nobody else can speak for and that has just shown that it validates: it vouches for a signed name and
// refuses a forged one. A host that its policy rules out is not spoken to; when none is left the message waits (decisions B, `tls`).
import { limits } from '../config.ts'
import { usableTlsa, type DaneRule } from './dane-rfc7672.ts'
import type { Dns } from '../base/dns.ts'
import { doneFor } from '../base/turns.ts'
import { validates, type Probes } from '../base/dnssec.ts'
import { stsAllows } from './mta-sts-rfc8461.ts'
import type { StsPolicies } from './mta-sts.ts'
import type { MailHost } from './resolve.ts'

export type TlsPolicy =
  | { readonly kind: 'opportunistic' }
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
        host.secure && (await validatesNow()) ? daneOf(dns, domain, host, port) : undefined,
      ),
    ])
    const found = names.map(([name], index): [string, TlsPolicy] => {
      const own = dane[index]
      if (own !== undefined) return [name, own]
      if (policy?.mode !== 'enforce') return [name, { kind: 'opportunistic' }]
      return [name, { kind: stsAllows(policy, name) ? 'mta_sts' : 'ruled_out' }]
    })
    return new Map(found)
  }
  return { policiesFor }
}

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

/** Answers whether the AD bit of these servers is worth something; asked anew once in a while, and sooner after a no. */
function makeSelfTest(dns: Dns, probes: Probes, now: () => number): () => Promise<boolean> {
  let last: { readonly until: number; readonly answer: Promise<boolean> } | undefined

  return () => {
    if (last !== undefined && now() < last.until) return last.answer
    const answer = doneFor('', () => validates(dns, probes)) // all wait for it
    last = { until: Infinity, answer }
    void answer.then((yes) => {
      last = { until: now() + (yes ? limits.dnssecTestMs : limits.dnssecRetestMs), answer }
    })
    return answer
  }
}
