// The addresses of a host, for whoever connects to strangers: over the name servers that are set, or the system's way. A failure is told
// apart from "there is none", because only the latter is an answer.
import { lookup, type Resolver } from 'node:dns/promises'

export interface Addresses {
  readonly addresses: readonly string[]
  /** True when the name may have addresses that we could not learn. */
  readonly failed: boolean
}

/** IPv4 first: receivers refuse it less often for want of a reputation or a reverse name. */
export async function findAddresses(dns: Resolver, host: string): Promise<Addresses> {
  const [four, six] = await Promise.all(
    [dns.resolve4(host), dns.resolve6(host)].map(async (answer): Promise<Addresses> => {
      try {
        return { addresses: await answer, failed: false }
      } catch (error) {
        return { addresses: [], failed: meaningOf(error) === 'failure' }
      }
    }),
  )
  const addresses = [...(four?.addresses ?? []), ...(six?.addresses ?? [])]
  return { addresses, failed: four?.failed === true || six?.failed === true }
}

export async function systemAddresses(host: string): Promise<Addresses> {
  try {
    const found = await lookup(host, { all: true, order: 'ipv4first' })
    return { addresses: found.map((entry) => entry.address), failed: false }
  } catch {
    return { addresses: [], failed: true }
  }
}

/** What c-ares says, in three words. ENOTFOUND is NXDOMAIN; ENODATA is a name without such a record. */
export function meaningOf(error: unknown): 'not_found' | 'no_data' | 'failure' {
  const code = (error as { code?: unknown }).code
  if (code === 'ENOTFOUND') return 'not_found'
  if (code === 'ENODATA') return 'no_data'
  return 'failure'
}
