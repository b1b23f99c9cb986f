// The addresses of a host, for whoever connects to strangers: over the name servers that are set, or the system's way. A failure is told
// apart from "there is none", because only the latter is an answer.
import { lookup, type Resolver } from 'node:dns/promises'
import { isNothingLeft } from './nothing-left.ts'

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
        return { addresses: [], failed: !isSure(error) }
      }
    }),
  )
  const addresses = [...(four?.addresses ?? []), ...(six?.addresses ?? [])]
  return { addresses, failed: four?.failed === true || six?.failed === true }
}

/** Throws where nothing is left here to ask with. */
export async function systemAddresses(host: string): Promise<Addresses> {
  try {
    const found = await lookup(host, { all: true, order: 'ipv4first' })
    return { addresses: found.map((entry) => entry.address), failed: false }
  } catch (error) {
    if (isNothingLeft(error)) throw error
    return { addresses: [], failed: true }
  }
}

/** ENOTFOUND is NXDOMAIN; ENODATA is a name without such a record. Anything else may be different the next time. */
function isSure(error: unknown): boolean {
  const code = (error as { code?: unknown }).code
  return code === 'ENOTFOUND' || code === 'ENODATA'
}
