// MTA-STS (RFC 8461): the words of its TXT record and its policy file, and which mail hosts a policy allows. Pure: fetching and keeping is
// done in mta-sts.ts.
import { limits } from '../config.ts'

export interface StsPolicy {
  /** The id of the TXT record that it was fetched for. */
  readonly id: string
  readonly mode: 'enforce' | 'testing' | 'none'
  /** Host names, or `*.` and a domain, lower case. */
  readonly mx: readonly string[]
  readonly maxAgeSeconds: number
}

/** The id in the TXT records of `_mta-sts.DOMAIN`; undefined where there is not exactly one record that speaks of STS (3.1). */
export function stsId(texts: readonly string[]): string | undefined {
  const ours = texts.filter((text) => /^v=STSv1[ \t]*(?:;|$)/.test(text))
  if (ours.length !== 1) return undefined
  return /;[ \t]*id[ \t]*=[ \t]*([A-Za-z0-9]{1,32})[ \t]*(?:;|$)/.exec(ours[0] ?? '')?.[1]
}

/** The policy in a file (3.2), or undefined where it is none. Unknown keys are skipped; of a key given twice the first counts. */
export function parseStsPolicy(id: string, text: string): StsPolicy | undefined {
  const first = new Map<string, string>()
  const mx: string[] = []
  for (const line of text.split(/\r?\n/)) {
    const at = line.indexOf(':')
    if (at === -1) continue
    const key = line.slice(0, at).trim()
    const value = line.slice(at + 1).trim()
    if (key === 'mx') mx.push(value.toLowerCase().replace(/\.$/, ''))
    else if (!first.has(key)) first.set(key, value)
  }
  const mode = first.get('mode')
  const maxAge = first.get('max_age') ?? ''
  if (first.get('version') !== 'STSv1' || !/^\d{1,10}$/.test(maxAge)) return undefined
  if (mode !== 'enforce' && mode !== 'testing' && mode !== 'none') return undefined
  const patterns = mx.filter((name) => /^(?:\*\.)?[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9])?$/.test(name))
  if (mode !== 'none' && patterns.length === 0) return undefined
  return {
    id,
    mode,
    mx: patterns.slice(0, limits.stsHostsMax),
    maxAgeSeconds: Math.min(Number(maxAge), limits.stsMaxAgeSeconds),
  }
}

/** `*.example.org` stands for exactly one label more (4.1). */
export function stsAllows({ mx }: StsPolicy, host: string): boolean {
  const name = host.toLowerCase()
  const at = name.indexOf('.')
  return mx.some((pattern) =>
    pattern.startsWith('*.') ? at > 0 && name.slice(at) === pattern.slice(1) : name === pattern,
  )
}
