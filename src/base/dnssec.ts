// Whether name servers validate DNSSEC, so that their AD bit is worth something: every one of them vouches for a signed name and refuses a
// forged one, and nobody else can speak in their name. A question without an answer says nothing: a datagram was lost, or the names' own
// servers are slow.
import { limits } from '../config.ts'
import type { Dns, DnsAnswer } from './dns.ts'

/** Two names for the self-test: one that is signed, one whose signatures are broken on purpose. */
export interface Probes {
  readonly signed: string
  readonly forged: string
}

export type Validation = 'yes' | 'no' | 'unknown'

export async function validation(dns: Dns, { signed, forged }: Probes): Promise<Validation> {
  if (!dns.near || dns.servers.length === 0) return 'no'
  const answers = await Promise.all(
    dns.servers.flatMap((server) => [
      told(() => dns.askServer(server, signed, 'SOA'), vouches),
      told(() => dns.askServer(server, forged, 'A'), refuses),
    ]),
  )
  return answers.find((answer) => answer === 'no') ?? answers.find((answer) => answer === 'unknown') ?? 'yes'
}

/** One that has no answer itself (SERVFAIL) is no liar. */
const vouches = ({ kind, secure }: DnsAnswer): Validation =>
  kind === 'failure' ? 'unknown' : kind === 'found' && secure ? 'yes' : 'no'

const refuses = ({ kind, answered }: DnsAnswer): Validation =>
  kind !== 'failure' ? 'no' : answered ? 'yes' : 'unknown'

/** Asked again where nothing was told. */
async function told(ask: () => Promise<DnsAnswer>, means: (answer: DnsAnswer) => Validation): Promise<Validation> {
  for (let turn = 1; ; turn++) {
    const answer = means(await ask())
    if (answer !== 'unknown' || turn >= limits.dnsTries) return answer
  }
}
