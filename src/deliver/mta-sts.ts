// The MTA-STS policy of a domain (RFC 8461 sections 3.3 and 5): looked for by its TXT record, fetched over HTTPS with every bound that a
// stranger's server needs, kept in the database so that a restart does not forget it. A policy that was fetched outlives a failing
// refresh and a TXT record that is gone, until its time is over: else whoever can cut a line could also take the protection away.
import { request } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { limits } from '../config.ts'
import { BoundedMap } from '../base/bounded-map.ts'
import type { Dns } from '../base/dns.ts'
import { keyExchanges } from '../base/key-exchanges.ts'
import { currentOwner } from '../base/turns.ts'
import { parseStsPolicy, stsId, type StsPolicy } from './mta-sts-rfc8461.ts'
import { isPrivateAddress } from '../base/private-address.ts'
import { remembered } from '../base/remembered.ts'
import { textOf } from '../base/zones.ts'
import { someOf } from './reachability.ts'

export interface KeptPolicy extends StsPolicy {
  /** Milliseconds since it was fetched. */
  readonly ageMs: number
}

/** Where policies outlive this process. */
export interface PolicyStore {
  read(domain: string): Promise<KeptPolicy | undefined>
  keep(domain: string, policy: StsPolicy): Promise<void>
}

export interface StsSettings {
  readonly store?: PolicyStore
  readonly allowPrivate: boolean
  /** Certificates to trust instead of the system's (tests). */
  readonly trustedCa?: string
  readonly port?: number
  readonly fetchMs?: number
  readonly now?: () => number
}

export interface StsPolicies {
  /** The policy to follow now, if the domain has one. Never rejects. */
  policyFor(domain: string): Promise<StsPolicy | undefined>
}

interface Held {
  readonly policy: StsPolicy
  readonly fetchedAt: number
}

export function makeStsPolicies(dns: Dns, settings: StsSettings): StsPolicies {
  const { store, now = () => performance.now() } = settings
  const held = new BoundedMap<string, Held>(limits.stsPoliciesMax)
  /** A fetch that failed is not tried again at once. */
  const failedUntil = new BoundedMap<string, number>(limits.stsPoliciesMax)
  const refreshing = new Set<string>()

  const hold = (domain: string, found: Held): Held => {
    held.set(domain, found)
    return found
  }

  const known = async (domain: string): Promise<Held | undefined> => {
    const here = held.get(domain)
    if (here !== undefined && !isOver(here)) return here
    // Another node may have fetched it since.
    // Without the database there may be a policy that we cannot see: a TXT record then leads to a fetch, as at the first time.
    const stored = await store?.read(domain).catch(() => undefined)
    if (stored === undefined) return undefined
    const found = hold(domain, { policy: stored, fetchedAt: now() - stored.ageMs })
    return isOver(found) ? undefined : found
  }
  const isOver = ({ policy, fetchedAt }: Held): boolean => now() >= fetchedAt + policy.maxAgeSeconds * 1000

  const renew = async (domain: string, id: string): Promise<Held | undefined> => {
    if (now() < (failedUntil.get(domain) ?? 0)) return undefined
    const text = await fetchPolicy(dns, domain, settings).catch(() => undefined)
    const policy = text === undefined ? undefined : parseStsPolicy(id, text)
    if (policy === undefined) {
      failedUntil.set(domain, now() + limits.stsFailedMs)
      return undefined
    }
    await store?.keep(domain, policy).catch(() => undefined) // it counts all the same, as long as we run
    return hold(domain, { policy, fetchedAt: now() })
  }

  const find = async (domain: string): Promise<StsPolicy | undefined> => {
    const [before, txt] = await Promise.all([known(domain), dns.ask(`_mta-sts.${domain}`, 'TXT')])
    const id = stsId(txt.records.flatMap((record) => textOf(record) ?? []))
    if (id === undefined) return before?.policy
    if (before === undefined || before.policy.id !== id) return (await renew(domain, id))?.policy ?? before?.policy
    // The same id: renewed on the side well before its end, so that it never runs out while the domain is written to.
    const due = Math.min(limits.stsRefreshMs, (before.policy.maxAgeSeconds * 1000) / 2)
    const { fetchedAt } = held.get(domain) ?? before // perhaps renewed while we waited for the answer
    if (now() - fetchedAt > due && !refreshing.has(domain)) {
      refreshing.add(domain)
      void renew(domain, id).finally(() => refreshing.delete(domain))
    }
    return before.policy
  }

  return {
    policyFor: remembered(find, {
      keepMs: () => limits.stsCheckedMs,
      most: limits.stsPoliciesMax,
      now,
      owner: currentOwner,
    }),
  }
}

/** The file at the well-known place (3.3): a valid certificate for that very name, no redirect, plain text, small, and soon. */
async function fetchPolicy(dns: Dns, domain: string, settings: StsSettings): Promise<string | undefined> {
  const host = `mta-sts.${domain}`
  const { allowPrivate, trustedCa, port = 443, fetchMs = limits.stsFetchMs } = settings
  const answers = await Promise.all([dns.ask(host, 'A'), dns.ask(host, 'AAAA')])
  const addresses = answers
    .flatMap(({ records }) =>
      records.flatMap((record) => (record.type === 'A' || record.type === 'AAAA' ? [{ address: record.data }] : [])),
    )
    .filter(({ address }) => allowPrivate || !isPrivateAddress(address))
  if (addresses.length === 0) return undefined
  // Of both families, one after the other: a machine may have a way to one alone.
  const places = someOf(addresses, 2).map(({ address }) => ({ address, family: isIP(address) }))
  const lookup: LookupFunction = (_name, _options, answer) => answer(null, places)
  const oneAfterTheOther = { lookup, autoSelectFamily: true, autoSelectFamilyAttemptTimeout: fetchMs / 2 }
  return new Promise((resolve) => {
    const asked = request(
      {
        host,
        ...oneAfterTheOther,
        port,
        servername: host,
        path: '/.well-known/mta-sts.txt',
        headers: { host, accept: 'text/plain', 'user-agent': 'Posthorn' },
        agent: false,
        maxHeaderSize: 16 * 1024,
        minVersion: 'TLSv1.2',
        ecdhCurve: keyExchanges,
        ...(trustedCa !== undefined && { ca: trustedCa }),
      },
      (answer) => {
        const type = answer.headers['content-type'] ?? ''
        if (answer.statusCode !== 200 || !/^text\/plain\s*(?:;|$)/i.test(type)) return give(undefined)
        const chunks: Buffer[] = []
        let bytes = 0
        answer.on('data', (chunk: Buffer) => {
          bytes += chunk.length
          if (bytes > limits.stsFileBytesMax) give(undefined)
          else chunks.push(chunk)
        })
        answer.on('end', () => give(answer.complete ? Buffer.concat(chunks).toString('utf8') : undefined))
        answer.on('error', () => give(undefined))
      },
    )
    const give = (text: string | undefined) => {
      clearTimeout(timer)
      resolve(text)
      asked.destroy()
    }
    const timer = setTimeout(() => give(undefined), fetchMs)
    asked.on('error', () => give(undefined))
    asked.end()
  })
}
