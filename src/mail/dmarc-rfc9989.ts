// What a domain's DMARC record says, in plain words (RFC 9989, and RFC 7489 before it, by which many receivers go yet): what they do with mail that
// fails, and whether ours will pass.
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

/** What a policy comes to while its owner only tests it (RFC 9989 4.7, `t`). */
const tested: ReadonlyMap<string, string> = new Map([
  ['quarantine', 'none'],
  ['reject', 'quarantine'],
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
  const given = (tag: string): string | undefined => tags.get(tag)?.toLowerCase()
  const isPolicy = (tag: string): boolean => policies.has(given(tag) ?? '')
  // RFC 9989 4.10.1: one that cannot be read spoils the others, also where it is not the one that counts; who asks for reports has p=none then.
  const broken = isPolicy('p') ? ['sp', 'np'].find((tag) => tags.has(tag) && !isPolicy(tag)) : 'p'
  if (broken !== undefined)
    return /(?:^|,)\s*mailto:[^\s,@]+@[^\s,@]/i.test(tags.get('rua') ?? '')
      ? {
          works: true,
          words: `The DMARC record has no policy that can be read, and receivers take it for p=none: ${broken} must be none, quarantine or reject.`,
        }
      : { works: false, words: `The DMARC record has no policy: ${broken} must be none, quarantine or reject.` }
  const policy = (above ? given('sp') : undefined) ?? given('p') ?? ''
  const milder = given('t') === 'y' ? tested.get(policy) : undefined
  const more = [
    milder !== undefined &&
      `But t=y says that you are only testing: receivers that know this tag act as by p=${milder}. Remove it when the reports are clean.`,
    above && `It is the record of ${at.slice('_dmarc.'.length)}, which holds for the domains below it.`,
    !tags.has('rua') && 'It asks for no reports: add rua=mailto:... to learn who sends in your name.',
    (tags.get('pct') ?? '100') !== '100' &&
      `To older receivers it holds for ${tags.get('pct')} % of the mail only (pct); others act so with all of it, since RFC 9989 has no such tag.`,
    above &&
      given('adkim') === 's' &&
      'It is strict for DKIM (adkim=s); our signature has the domain itself, so it passes.',
    given('aspf') === 's' &&
      'It is strict for SPF (aspf=s), and the return path lies below the domain: mail passes by its DKIM signature alone.',
  ]
  return { works: true, words: [policies.get(policy), ...more.filter((each) => each !== false)].join(' ') }
}
