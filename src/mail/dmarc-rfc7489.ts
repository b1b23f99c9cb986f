// What a domain's DMARC record says, in plain words (RFC 7489): what receivers do with mail that fails, and whether ours will pass.
import { tagsOf } from './dkim-key-record.ts'

const isDmarc = (text: string): boolean => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text)

export interface DmarcFinding {
  /** Receivers act by it. */
  readonly works: boolean
  readonly words: string
}

const policies: ReadonlyMap<string, string> = new Map([
  [
    'none',
    'p=none: receivers report, and treat failing mail as before. Begin with it; when the reports are clean, go on to quarantine and reject.',
  ],
  ['quarantine', 'p=quarantine: receivers put mail that fails into the spam folder.'],
  ['reject', 'p=reject: receivers refuse mail that fails.'],
])

/** `at`: where the record was found, which may be above the domain. */
export function readDmarc(texts: readonly string[], domain: string, at: string): DmarcFinding | undefined {
  const records = texts.filter(isDmarc)
  if (records.length === 0) return undefined
  if (records.length > 1)
    return { works: false, words: 'Two DMARC records stand here, and receivers then ignore both: remove one.' }
  const tags = tagsOf(records[0] as string)
  if (tags === undefined) return { works: false, words: 'The DMARC record cannot be read as "tag=value; tag=value".' }
  const above = at !== `_dmarc.${domain}`
  const policy = ((above ? tags.get('sp') : undefined) ?? tags.get('p') ?? '').toLowerCase()
  const said = policies.get(policy)
  // RFC 7489 6.6.3: who asks for reports has p=none at least.
  if (said === undefined && /(?:^|,)\s*mailto:[^\s,@]+@[^\s,@]/i.test(tags.get('rua') ?? ''))
    return {
      works: true,
      words:
        'The DMARC record has no policy that can be read, and receivers take it for p=none: write p=none, quarantine or reject.',
    }
  if (said === undefined)
    return { works: false, words: 'The DMARC record has no policy: p must be none, quarantine or reject.' }
  const more = [
    above && `It is the record of ${at.slice('_dmarc.'.length)}, which holds for the domains below it.`,
    !tags.has('rua') && 'It asks for no reports: add rua=mailto:... to learn who sends in your name.',
    (tags.get('pct') ?? '100') !== '100' && `It holds for ${tags.get('pct')} % of the mail only (pct).`,
    above &&
      tags.get('adkim')?.toLowerCase() === 's' &&
      'It is strict for DKIM (adkim=s); our signature has the domain itself, so it passes.',
    tags.get('aspf')?.toLowerCase() === 's' &&
      'It is strict for SPF (aspf=s), and the return path lies below the domain: mail passes by its DKIM signature alone.',
  ]
  return { works: true, words: [said, ...more.filter((each) => each !== false)].join(' ') }
}
