// Whether a reporter is who it says: a DKIM signature (RFC 6376) that verifies, of the domain in the one From field. Bounded in
// signatures, in keys asked for, and in time; whatever goes wrong, the answer is no.
import { Resolver } from 'node:dns/promises'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { limits } from '../config.ts'
import { countFields } from '../mail/header-block.ts'

export interface ReporterSettings {
  /** `ip` or `ip:port`; none: the system's. */
  readonly dnsServers: readonly string[]
}

/** The domain that is proven; `later` where the DNS did not answer, so that nobody can know yet. */
export type Reporter = { readonly proven: string } | 'unproven' | 'later'
export type ReporterCheck = (mail: Buffer) => Promise<Reporter>

export function makeReporterCheck({ dnsServers }: ReporterSettings): ReporterCheck {
  return async (mail) => {
    // Before anything is parsed: each one costs a look-up and a hash over the whole mail.
    if (countFields(mail, 'dkim-signature') > limits.reporterSignaturesMax) return 'unproven'
    const dns = new Resolver({ timeout: limits.dnsQueryMs, tries: limits.dnsTries })
    if (dnsServers.length > 0) dns.setServers(dnsServers)
    const bound = setTimeout(() => dns.cancel(), limits.reporterLookupMs)
    try {
      // Only now: the verifier takes 30 MB of memory, and complaints are rare.
      const { dkimVerify } = await import('mailauth/lib/dkim/verify.js')
      const { results, headerFrom, fromFields } = await dkimVerify(Readable.from(inPieces(mail)), {
        strict: true,
        resolver: (name, type) => dns.resolve(name, type) as Promise<string[][]>,
      })
      if (fromFields !== 1 || headerFrom.length !== 1) return 'unproven'
      const aligned = results.filter(({ status }) => status.aligned)
      const good = aligned.find(({ status }) => status.result === 'pass')
      if (good?.signingDomain !== undefined) return { proven: good.signingDomain }
      return aligned.some(({ status }) => status.result === 'temperror') ? 'later' : 'unproven'
    } catch {
      return 'unproven' // a mail that the verifier cannot read
    } finally {
      clearTimeout(bound)
    }
  }
}

const pieceBytes = 32 * 1024

/** With the event loop free in between: whole, a mail of 40 MB that is all blanks takes the verifier ten seconds at a stretch. */
async function* inPieces(mail: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < mail.length; at += pieceBytes) {
    yield mail.subarray(at, at + pieceBytes)
    await setImmediate()
  }
}
