// What a verifier that is not ours says of a mail's DKIM signatures, with the records that a domain was asked to publish.
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import type { DnsRecord } from './journey-workspace.ts'

/** `pass example.com` for a good signature of that domain; one entry for each signature. */
export async function dkimVerdicts(wire: string | Buffer, records: readonly DnsRecord[]): Promise<string[]> {
  const resolver = (name: string, type: string) => {
    const record = records.find((each) => each.name === name && each.type === type)
    return record === undefined
      ? Promise.reject(Object.assign(new Error(`no ${type} of ${name}`), { code: 'ENOTFOUND' }))
      : Promise.resolve([record.value.match(/.{1,255}/g) ?? []])
  }
  const { results } = await dkimVerify(typeof wire === 'string' ? Buffer.from(wire, 'latin1') : wire, {
    strict: true,
    resolver,
  })
  return results.map(({ status, signingDomain }) => `${status.result} ${signingDomain}`)
}
