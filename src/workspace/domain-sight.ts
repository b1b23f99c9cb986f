// Looks at the records of one domain in the DNS and says what each of them is: right, not there, or wrong and why. Reads only; what
// follows from it is decided elsewhere (domain/domain-state.ts).
import { limits } from '../config.ts'
import { textOf, type ZoneAnswer, type Zones } from '../base/zones.ts'
import { dkimAdvice, whyNotDkim } from '../mail/dkim-key-record.ts'
import { readDmarc } from '../mail/dmarc-rfc9989.ts'
import { returnPathName } from '../mail/return-path.ts'
import { isSpf, mayAllow, whyBadSpf } from '../mail/spf-rfc7208.ts'
import type { DkimKeyRow, DomainRow } from '../store/domains.ts'
import * as records from './domain-records.ts'
import { returnPathSpf, sightName, type Found, type Sight } from './domain-records.ts'

/** A sight, and whether anybody who speaks for the zone was heard. */
interface Look {
  readonly sight: Sight
  readonly answered: boolean
}

export interface DomainSight {
  readonly found: Found
  readonly ownership: Look
  readonly keys: readonly (Look & { readonly key: DkimKeyRow })[]
  readonly returnPath: Look
}

export async function lookAtDomain(zones: Zones, row: DomainRow, hostname: string): Promise<DomainSight> {
  const { name, ownershipToken: token } = row
  const ownershipName = records.ownershipName(name)
  const [ownership, keys, returnPath, dmarc, spf] = await Promise.all([
    lookAtText(zones, ownershipName, name, (texts) => whyNotOurs(texts, records.ownershipValue(token))),
    Promise.all(
      row.keys.map(async (key) => {
        const at = records.dkimName(key.selector, name)
        return {
          key,
          ...(await lookAtText(
            zones,
            at,
            name,
            (texts) => whyNotDkim(texts, key.publicKey, key.algorithm),
            dkimAdvice,
          )),
        }
      }),
    ),
    lookAtReturnPath(zones, returnPathName(name), hostname, (row.found as Found | null)?.returnPath ?? 'CNAME'),
    lookAtDmarc(zones, name),
    adviseOnSpf(zones, name),
  ])
  const sights: Record<string, Sight> = {
    [sightName({ type: 'TXT', name: ownershipName })]: ownership.sight,
    [sightName({ type: 'TXT', name: records.dmarcName(name) })]: dmarc,
    ...returnPath.sights,
  }
  for (const { key, sight } of keys)
    sights[sightName({ type: 'TXT', name: records.dkimName(key.selector, name) })] = sight
  return { found: { sights, advice: spf, returnPath: returnPath.way }, ownership, keys, returnPath }
}

const silence: Look = {
  sight: {
    status: 'pending',
    finding:
      'The name servers of the zone did not answer. That may pass; if it does not, look at the NS records of the domain, and whether this installation may ask them (`posthorn doctor`).',
  },
  answered: false,
}
const notThere: Sight = { status: 'pending', finding: 'There is no such record yet.' }

/** What strangers wrote into their zone, as far as it is shown. Half a pair of surrogates is nothing that PostgreSQL reads again. */
function shown(texts: readonly string[]): readonly string[] {
  const most = limits.domainRecordShownCharactersMax
  return texts.slice(0, 5).map((text) =>
    text
      .replace(/\p{Cc}/gu, ' ')
      .slice(0, most)
      .toWellFormed(),
  )
}

const textsOf = ({ records: found }: ZoneAnswer): string[] =>
  found.slice(0, limits.domainRecordsReadMax).flatMap((record) => textOf(record)?.trim() ?? [])

async function lookAtText(
  zones: Zones,
  at: string,
  domain: string,
  whyNot: (texts: readonly string[]) => string | undefined,
  advice: (texts: readonly string[]) => string | undefined = () => undefined,
): Promise<Look> {
  const answer = await zones.ask(at, 'TXT')
  if (answer.kind === 'unanswered') return silence
  const texts = textsOf(answer)
  if (texts.length === 0) return { sight: await lookTwiceNamed(zones, at, domain, whyNot), answered: true }
  const why = whyNot(texts)
  if (why !== undefined) return { sight: { status: 'wrong', found: shown(texts), finding: why }, answered: true }
  const finding = advice(texts)
  return { sight: { status: 'verified', ...(finding !== undefined && { finding }) }, answered: true }
}

/** Many editors of zones append the domain by themselves. */
async function lookTwiceNamed(
  zones: Zones,
  at: string,
  domain: string,
  whyNot: (texts: readonly string[]) => string | undefined,
): Promise<Sight> {
  const twice = `${at}.${domain}`
  const texts = textsOf(await zones.ask(twice, 'TXT'))
  if (texts.length === 0 || whyNot(texts) !== undefined) return notThere
  const short = at.slice(0, -domain.length - 1)
  return {
    status: 'wrong',
    finding: `The record stands at ${twice}: your provider appends the domain by itself. Enter "${short}" as its name.`,
  }
}

function whyNotOurs(texts: readonly string[], value: string): string | undefined {
  if (texts.includes(value)) return undefined
  const quoted = texts.some((text) => text.replaceAll(/["\s]/g, '') === value)
  return quoted
    ? 'The value has quotation marks or spaces in it: enter it without.'
    : 'The TXT record has another value: add one with the value that is shown here.'
}

interface ReturnPathLook extends Look {
  readonly sights: Readonly<Record<string, Sight>>
  readonly way: Found['returnPath']
}

/** A CNAME to us, or an MX to us with an SPF record beside it. Silence says nothing of which: it stays as it was seen `before`. */
async function lookAtReturnPath(
  zones: Zones,
  at: string,
  hostname: string,
  before: Found['returnPath'],
): Promise<ReturnPathLook> {
  const [alias, exchange, text] = await Promise.all([zones.ask(at, 'CNAME'), zones.ask(at, 'MX'), zones.ask(at, 'TXT')])
  const one = (sight: Sight, answered = true): ReturnPathLook => ({
    sight,
    answered,
    way: 'CNAME',
    sights: { [sightName({ type: 'CNAME', name: at })]: sight },
  })
  const two = (mx: Sight, spf: Sight, answered = true): ReturnPathLook => ({
    sight: [mx, spf].find(({ status }) => status !== 'verified') ?? mx,
    answered,
    way: 'MX',
    sights: { [sightName({ type: 'MX', name: at })]: mx, [sightName({ type: 'TXT', name: at })]: spf },
  })
  const targets = alias.records.flatMap((record) => (record.type === 'CNAME' ? [hostOf(record.data)] : []))
  // Also by way of other names.
  if ([...targets, ...exchange.aliases, ...text.aliases].includes(hostname)) {
    const silent = text.kind === 'unanswered' || textsOf(text).some(isSpf)
    return one({
      status: 'verified',
      ...(!silent && {
        finding: `${hostname} has no SPF record itself, so SPF does not pass for this name either: whoever runs the installation has to set one.`,
      }),
    })
  }
  if (alias.kind === 'unanswered' || exchange.kind === 'unanswered' || text.kind === 'unanswered')
    return before === 'MX' ? two(silence.sight, silence.sight, false) : one(silence.sight, false)
  if (targets.length > 0)
    return one({
      status: 'wrong',
      found: shown(targets),
      finding: `The CNAME leads elsewhere: it must lead to ${hostname}.`,
    })
  const hosts = exchange.records.flatMap((record) => (record.type === 'MX' ? [hostOf(record.data.exchange)] : []))
  if (hosts.length === 0)
    return one({
      status: 'pending',
      finding: `Not set: bounces use the installation's own host, so SPF does not align with your domain. Instead of the CNAME, an MX record "10 ${hostname}" with a TXT record "${returnPathSpf(hostname)}" will do.`,
    })
  const mx: Sight = hosts.every((host) => host === hostname)
    ? { status: 'verified' }
    : {
        status: 'wrong',
        found: shown(hosts),
        finding: `Bounces would go elsewhere: ${hostname} must be the only mail host of this name.`,
      }
  return two(mx, sightOfSpf(textsOf(text), hostname))
}

function sightOfSpf(texts: readonly string[], hostname: string): Sight {
  if (!texts.some(isSpf))
    return {
      status: 'pending',
      finding: 'There is no SPF record: receivers cannot tell that we may send for this name.',
    }
  const bad = whyBadSpf(texts)
  if (bad !== undefined) return { status: 'wrong', found: shown(texts), finding: bad }
  if (!mayAllow(texts))
    return {
      status: 'wrong',
      found: shown(texts),
      finding: `The SPF record does not allow ${hostname}: add a:${hostname}.`,
    }
  return { status: 'verified' }
}

const hostOf = (name: string): string => name.toLowerCase().replace(/\.$/, '')

/** Where receivers look: at the domain, and then above it, of a very long name from its last seven labels on (RFC 9989 4.10). */
function* dmarcPlaces(domain: string): Generator<string> {
  yield domain
  const labels = domain.split('.')
  for (let from = Math.max(1, labels.length - 7); from <= labels.length - 2; from++) yield labels.slice(from).join('.')
}

async function lookAtDmarc(zones: Zones, domain: string): Promise<Sight> {
  for (const place of dmarcPlaces(domain)) {
    const at = records.dmarcName(place)
    const answer = await zones.ask(at, 'TXT')
    if (answer.kind === 'unanswered') return { status: 'advised', finding: silence.sight.finding as string }
    const texts = textsOf(answer)
    const said = readDmarc(texts, domain, at)
    if (said !== undefined)
      return said.works
        ? { status: 'verified', found: shown(texts), finding: said.words }
        : { status: 'wrong', found: shown(texts), finding: said.words }
  }
  return {
    status: 'advised',
    finding: 'There is no DMARC record. Large mailbox providers expect one from everybody who sends much.',
  }
}

/** The SPF record of the domain itself is not needed here, but a broken one hurts all who send in its name. */
async function adviseOnSpf(zones: Zones, domain: string): Promise<readonly string[]> {
  const bad = whyBadSpf(textsOf(await zones.ask(domain, 'TXT')))
  return bad === undefined
    ? []
    : [`${domain}: ${bad} Mail from here does not depend on it, since its return path is below the domain.`]
}
