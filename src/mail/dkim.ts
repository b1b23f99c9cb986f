// DKIM signatures (RFC 6376, relaxed; RSA-2048 with SHA-256, or Ed25519 by RFC 8463), for mail that we composed and for mail
// that was submitted to us. The key is parsed once, the expensive operation runs in a thread (deliver/signers.ts), and no regular expression and no
// copy goes over a body that is already in canonical form.
import { createPrivateKey, generateKeyPair, hash, sign } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import type { HeaderField } from './compose.ts'

/** As `a=` has it. */
export type DkimAlgorithm = 'rsa-sha256' | 'ed25519-sha256'

export interface SigningKey {
  readonly domain: string
  readonly selector: string
  readonly algorithm: DkimAlgorithm
  readonly privateKey: KeyObject
}

/** Signs the octets of a latin-1 text; answers Base64. */
export type Sign = (key: Pick<SigningKey, 'algorithm' | 'privateKey'>, input: string) => Promise<string>

interface SigningKeySource {
  readonly domain: string
  readonly selector: string
  readonly privateKeyPem: string
}

/** Throws where the PEM is not an RSA key of at least 2048 bits or an Ed25519 key. */
export function signingKey({ domain, selector, privateKeyPem }: SigningKeySource): SigningKey {
  const privateKey = createPrivateKey(privateKeyPem)
  if (privateKey.asymmetricKeyType === 'ed25519') return { domain, selector, algorithm: 'ed25519-sha256', privateKey }
  const bits = privateKey.asymmetricKeyDetails?.modulusLength ?? 0
  if (privateKey.asymmetricKeyType !== 'rsa' || bits < 2_048)
    throw new Error(`the DKIM key of ${domain} is not RSA of at least 2048 bits, nor Ed25519`)
  return { domain, selector, algorithm: 'rsa-sha256', privateKey }
}

/** Signed as often as they occur. */
const signedNames = [
  'from',
  'to',
  'cc',
  'reply-to',
  'subject',
  'date',
  'message-id',
  'mime-version',
  'content-type',
  'content-transfer-encoding',
]
/**
 * Signed once more than they occur (RFC 6376 5.4.2, 8.15): who adds one, such as a Reply-To of his own before he sends the mail to others, breaks the
 * signature.
 */
const oversigned = new Set(['from', 'to', 'cc', 'reply-to', 'subject', 'date', 'message-id'])
/** The same where they occur: an honest relay may add what is missing, and nobody a second one. */
const oversignedOnceThere = new Set(['mime-version', 'content-type', 'content-transfer-encoding'])

/**
 * The complete fields, one for each key and in their order, folded, with their CRLF: they go before the header block. `fields` are raw pairs as
 * written (compose.ts), `body` is what follows the empty line, without dot-stuffing; `moreNames`, in lower case, are signed where they occur.
 */
export async function dkimHeaders(
  keys: readonly SigningKey[],
  fields: readonly HeaderField[],
  body: Buffer,
  signedAtSeconds: number,
  moreNames: readonly string[] = [],
  signed: Sign = signOnPool,
): Promise<string> {
  const names = moreNames.length === 0 ? signedNames : [...new Set([...signedNames, ...moreNames])]
  const content: SignedContent = { ...selectFields(fields, names), ...hashOf(body) }
  const each = async (key: SigningKey): Promise<string> => {
    const { unsigned, input } = prepareSignature(key, content, signedAtSeconds)
    return unsigned + foldSignature(await signed(key, input))
  }
  return (await Promise.all(keys.map(each))).join('')
}

interface SignedContent {
  /** The names for h= and the canonical fields, in the same order. */
  readonly listed: readonly string[]
  readonly canonical: string
  readonly bodyForm: 'relaxed' | 'simple'
  readonly bodyHash: string
}

/** Everything but the key operation: the field up to `b=`, and the octets that it signs. */
function prepareSignature(
  key: SigningKey,
  { listed, canonical, bodyForm, bodyHash }: SignedContent,
  signedAtSeconds: number,
): { readonly unsigned: string; readonly input: string } {
  const unsigned =
    fold([
      'DKIM-Signature: v=1;',
      ` a=${key.algorithm};`,
      ` c=relaxed/${bodyForm};`,
      ` d=${key.domain};`,
      ` s=${key.selector};`,
      ` t=${Math.trunc(signedAtSeconds)};`,
      ...listTag(listed),
      ` bh=${bodyHash};`,
    ]) + '\r\n b='
  // Relaxed form of what stands in `unsigned`: every fold is CRLF and one space, so unfolding is all that there is to do (3.7).
  const own = `dkim-signature:${unsigned.slice('DKIM-Signature: '.length).replaceAll('\r\n', '')}`
  return { unsigned, input: canonical + own }
}

/** Of equal names the lowest field comes first (RFC 6376 5.4.2). */
function selectFields(
  fields: readonly HeaderField[],
  names: readonly string[],
): Pick<SignedContent, 'listed' | 'canonical'> {
  const byName = new Map<string, string[]>()
  for (const [written, value] of fields) {
    const name = written.trimEnd().toLowerCase()
    const values = byName.get(name)
    if (values === undefined) byName.set(name, [value])
    else values.push(value)
  }
  const listed: string[] = []
  let canonical = ''
  for (const name of names) {
    const values = byName.get(name) ?? []
    for (let at = values.length - 1; at >= 0; at--) {
      listed.push(name)
      canonical += `${name}:${canonicalValue(values[at] as string)}\r\n`
    }
    if (oversigned.has(name) || (values.length > 0 && oversignedOnceThere.has(name))) listed.push(name)
  }
  return { listed, canonical }
}

/** RFC 6376 3.4.2: unfolded, runs of blanks as one space, none at the ends. Only space and tab are blanks; `\s` would take octet 160. */
function canonicalValue(value: string): string {
  if (!/[\t\r\n]| {2}|^ | $/.test(value)) return value
  return value
    .replace(/[\r\n]/g, '')
    .replace(/[ \t]+/g, ' ')
    .replace(/^ | $/g, '')
}

/** h= in pieces that may stand on lines of their own: white space around its colons is allowed (RFC 6376 3.5). */
function listTag(names: readonly string[]): string[] {
  return names.map((name, at) => `${at === 0 ? ' h=' : ''}${name}${at === names.length - 1 ? ';' : ':'}`)
}

const columnsMax = 78

/** Breaks before a piece that would pass the margin. */
function fold(pieces: readonly string[]): string {
  let text = ''
  let column = 0
  for (const piece of pieces) {
    if (column + piece.length > columnsMax) {
      const continued = piece.startsWith(' ') ? piece : ` ${piece}`
      text += `\r\n${continued}`
      column = continued.length
    } else {
      text += piece
      column += piece.length
    }
  }
  return text
}

function foldSignature(signature: string): string {
  const first = columnsMax - ' b='.length
  let text = signature.slice(0, first)
  for (let at = first; at < signature.length; at += columnsMax - 1)
    text += `\r\n ${signature.slice(at, at + columnsMax - 1)}`
  return `${text}\r\n`
}

/** On the thread pool. */
export const signOnPool: Sign = (key, input) =>
  new Promise((resolve, reject) => {
    sign(...signable(key, input), key.privateKey, (error, signature) => {
      if (error === null) resolve(signature.toString('base64'))
      else reject(error)
    })
  })

/** The same at once, for a thread that does nothing else. */
export function signNow(key: Parameters<Sign>[0], input: string): string {
  return sign(...signable(key, input), key.privateKey).toString('base64')
}

/** RFC 8463 3: Ed25519 signs the SHA-256 of the input, not the input. */
function signable({ algorithm }: Parameters<Sign>[0], input: string): ['sha256' | undefined, Buffer] {
  const octets = Buffer.from(input, 'latin1')
  return algorithm === 'rsa-sha256' ? ['sha256', octets] : [undefined, hash('sha256', octets, 'buffer')]
}

const TAB = 9
const LF = 10
const CR = 13
const FF = 12
const SPACE = 32
const twoSpaces = Buffer.from('  ')
const spaceAtLineEnd = Buffer.from(' \r')
const crlf = Buffer.from('\r\n')

/**
 * Relaxed, but where Rspamd has a relaxed form of its own and so refuses the signature: it takes a form feed for a blank, and of blanks alone it keeps an empty line
 * where the first line has some. A body as it stands can be read in one way only.
 */
function hashOf(body: Buffer): Pick<SignedContent, 'bodyForm' | 'bodyHash'> {
  const relaxed = body.includes(FF) ? undefined : canonicalBody(body)
  const isMisread = relaxed === undefined || (relaxed.length === 0 && (body[0] === SPACE || body[0] === TAB))
  return isMisread
    ? { bodyForm: 'simple', bodyHash: hash('sha256', simpleBody(body), 'base64') }
    : { bodyForm: 'relaxed', bodyHash: hash('sha256', relaxed, 'base64') }
}

/** RFC 6376 3.4.3: all as it stands, with one line end behind it. */
function simpleBody(body: Buffer): Buffer {
  let end = body.length
  while (endsWithCrlf(body, end)) end -= 2
  return endsWithCrlf(body, end + 2) ? body.subarray(0, end + 2) : Buffer.concat([body, crlf])
}

/** RFC 6376 3.4.4, of a body whose lines end with CRLF. A view of the body itself where nothing has to change. */
export function canonicalBody(body: Buffer): Buffer {
  const untouched = body.indexOf(TAB) === -1 && body.indexOf(twoSpaces) === -1 && body.indexOf(spaceAtLineEnd) === -1
  const reduced = untouched && body.at(-1) !== SPACE ? body : reduceBlanks(body)
  let end = reduced.length
  while (endsWithCrlf(reduced, end)) end -= 2
  if (end === 0) return reduced.subarray(0, 0)
  return endsWithCrlf(reduced, end + 2) ? reduced.subarray(0, end + 2) : Buffer.concat([reduced, crlf])
}

function endsWithCrlf(bytes: Buffer, end: number): boolean {
  return end >= 2 && bytes[end - 1] === LF && bytes[end - 2] === CR
}

/** Runs of blanks become one space, and nothing at the end of a line. */
function reduceBlanks(body: Buffer): Buffer {
  const out = Buffer.allocUnsafe(body.length)
  const length = body.length
  let to = 0
  let blank = false
  for (let at = 0; at < length; at++) {
    const octet = body[at] as number
    if (octet === SPACE || octet === TAB) {
      blank = true
      continue
    }
    if (blank && !(octet === CR && body[at + 1] === LF)) out[to++] = SPACE
    blank = false
    out[to++] = octet
  }
  return out.subarray(0, to)
}

const generate = promisify(generateKeyPair)

/** The public key as `p=` has it. */
export async function generateDkimKey(
  algorithm: DkimAlgorithm = 'rsa-sha256',
): Promise<{ privateKeyPem: string; publicKeyBase64: string }> {
  const isRsa = algorithm === 'rsa-sha256'
  const { privateKey, publicKey } = isRsa ? await generate('rsa', { modulusLength: 2_048 }) : await generate('ed25519')
  const spki = publicKey.export({ type: 'spki', format: 'der' })
  return {
    privateKeyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    // RFC 8463 4: of Ed25519 the 32 octets of the key alone, which are the end of its SubjectPublicKeyInfo (RFC 8410 4).
    publicKeyBase64: (isRsa ? spki : spki.subarray(-32)).toString('base64'),
  }
}

/** As `k=` has it. */
export const keyTypes = { 'rsa-sha256': 'rsa', 'ed25519-sha256': 'ed25519' } as const satisfies Record<
  DkimAlgorithm,
  string
>

/** The TXT record at `<selector>._domainkey.<domain>`. DNS carries it in strings of at most 255 octets. */
export function dkimRecord(publicKeyBase64: string, algorithm: DkimAlgorithm = 'rsa-sha256'): string {
  return `v=DKIM1; k=${keyTypes[algorithm]}; p=${publicKeyBase64}`
}
