// Whether a reporter is who it says: a DKIM signature (RFC 6376) that verifies, of the domain in the one From field. Bounded in what the
// verifier is given to read, in signatures, in keys asked for, and in time; whatever goes wrong, the answer is no.
import { Resolver } from 'node:dns/promises'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { limits } from '../config.ts'
import { hasLongLine, readHeaderBlock } from '../mail/header-block.ts'

export interface ReporterSettings {
  /** `ip` or `ip:port`; none: the system's. */
  readonly dnsServers: readonly string[]
  readonly lookupMs?: number
}

/** The domain that is proven; `later` where the DNS did not answer, so that nobody can know yet. */
export type Reporter = { readonly proven: string } | 'unproven' | 'later'
export type ReporterCheck = (mail: Buffer) => Promise<Reporter>

/** The verifier takes 30 MB of memory, and complaints are rare. */
const loadVerifier = () => import('mailauth/lib/dkim/verify.js')

export function makeReporterCheck(
  { dnsServers, lookupMs = limits.reporterLookupMs }: ReporterSettings,
  load: typeof loadVerifier = loadVerifier,
): ReporterCheck {
  return async (mail) => {
    if (!isVerifiable(mail)) return 'unproven'
    // Where it cannot be loaded (no file is left) nobody can know, and the sender is to come again.
    const { dkimVerify } = await load()
    const dns = new Resolver({ timeout: limits.dnsQueryMs, tries: limits.dnsTries })
    if (dnsServers.length > 0) dns.setServers(dnsServers)
    let isLate = false
    const bound = setTimeout(() => {
      isLate = true
      dns.cancel()
    }, lookupMs)
    // Keys are asked for one after the other: what is cancelled is the question under way alone.
    const ask = (name: string, type: string): Promise<string[][]> =>
      isLate ? Promise.reject(new Error('too late')) : (dns.resolve(name, type) as Promise<string[][]>)
    try {
      const { results, headerFrom, fromFields } = await dkimVerify(Readable.from(inPieces(mail)), {
        strict: true,
        resolver: ask,
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

/**
 * Whether the verifier reads it in the time that its size takes, and finds no other signatures in it than we count. Each costs it a look-up and a hash over
 * the whole mail; folds, names in an `h=` and octets of a line cost it their square, and the event loop stands still meanwhile. No mail of a mailbox
 * provider comes near these bounds.
 */
function isVerifiable(mail: Buffer): boolean {
  const fields = readHeaderBlock(mail, limits.reporterHeaderBytesMax)?.lines
  if (fields === undefined || hasLongLine(mail, limits.reporterLineBytesMax)) return false
  const signatures = fields.filter(({ name }) => name === 'dkim-signature')
  return (
    fields.reduce((sum, { value }) => sum + value.split('\r\n').length, 0) <= limits.reporterHeaderLinesMax &&
    fields.every(({ start, end }) => end - start <= limits.reporterFieldBytesMax) &&
    signatures.every(({ start, end }) => end - start <= limits.reporterSignatureBytesMax) &&
    signatures.length <= limits.reporterSignaturesMax &&
    signatures.length * mail.length <= limits.reporterHashedBytesMax &&
    fields.filter(({ name }) => name === 'from').length === 1
  )
}

const pieceBytes = 8 * 1024

/** With the event loop free in between: whole, a mail of 40 MB that is all blanks takes the verifier ten seconds at a stretch. */
async function* inPieces(mail: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < mail.length; at += pieceBytes) {
    yield mail.subarray(at, at + pieceBytes)
    await setImmediate()
  }
}
