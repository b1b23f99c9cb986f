// Whether name servers validate DNSSEC, so that their AD bit is worth something: every one of them vouches for a signed name and refuses a
// forged one, and nobody else can speak in their name.
import type { Dns } from './dns.ts'

/** Two names for the self-test: one that is signed, one whose signatures are broken on purpose. */
export interface Probes {
  readonly signed: string
  readonly forged: string
}

export async function validates(dns: Dns, { signed, forged }: Probes): Promise<boolean> {
  if (!dns.near || dns.servers.length === 0) return false
  const answers = await Promise.all(
    dns.servers.map(async (server) => {
      const [good, bad] = await Promise.all([dns.askServer(server, signed, 'SOA'), dns.askServer(server, forged, 'A')])
      return good.kind === 'found' && good.secure && bad.kind === 'failure' && bad.answered
    }),
  )
  return answers.every(Boolean)
}
