// One command line from an SMTP client (RFC 5321 4.1, RFC 3030, RFC 4954), as a typed value or a named mistake. Strict where a
// second reader could understand something else: no control characters, no source routes, no repeated parameters.
import { isUtf8 } from 'node:buffer'

/** ESMTP parameters in order: keyword in upper case, value as given. */
export type Parameters = readonly (readonly [keyword: string, value: string | undefined])[]

const bareVerbs = ['DATA', 'RSET', 'QUIT', 'STARTTLS'] as const
const looseVerbs = ['NOOP', 'VRFY', 'EXPN', 'HELP'] as const
type BareVerb = (typeof bareVerbs)[number]
type LooseVerb = (typeof looseVerbs)[number]

export type SmtpCommand =
  | { readonly verb: 'EHLO' | 'HELO'; readonly name: string }
  /** `path` is what stands between the angle brackets: '' is the null sender, allowed in MAIL only. */
  | { readonly verb: 'MAIL' | 'RCPT'; readonly path: string; readonly parameters: Parameters }
  | { readonly verb: 'AUTH'; readonly mechanism: string; readonly initial: string | undefined }
  | { readonly verb: 'BDAT'; readonly bytes: number; readonly last: boolean }
  | { readonly verb: BareVerb | LooseVerb }
  | { readonly verb: 'wrong'; readonly mistake: Mistake }

/** `bdat` stands apart: the bytes that follow cannot be told from commands. `proxy`: the PROXY protocol's first line, which a proxy sends. */
export type Mistake = 'unknown' | 'characters' | 'argument' | 'sender' | 'recipient' | 'parameter' | 'bdat' | 'proxy'

/** A path without its brackets is at most this long (RFC 5321 4.5.3.1.3 counts the brackets). */
const pathOctetsMax = 254
const chunkDigitsMax = 15

const wrong = (mistake: Mistake): SmtpCommand => ({ verb: 'wrong', mistake })
const ready = new Map<string, SmtpCommand>([...bareVerbs, ...looseVerbs].map((verb) => [verb, { verb }]))
const bare: ReadonlySet<string> = new Set(bareVerbs)

/** The text of a command line, given without its CRLF; undefined where it is no clean text. */
export function commandText(line: Buffer): string | undefined {
  let ascii = true
  for (let at = 0; at < line.length; at++) {
    const byte = line[at] as number
    if (byte < 0x20 || byte === 0x7f) return undefined
    if (byte > 0x7f) ascii = false
  }
  if (ascii) return line.toString('latin1')
  return isUtf8(line) ? line.toString('utf8') : undefined
}

export function parseCommand(line: Buffer): SmtpCommand {
  const text = commandText(line)?.trimEnd()
  if (text === undefined) return wrong('characters')
  const space = text.indexOf(' ')
  const verb = (space < 0 ? text : text.slice(0, space)).toUpperCase()
  const rest = space < 0 ? '' : text.slice(space + 1)
  switch (verb) {
    case 'MAIL':
      return parsePath('MAIL', rest, 'FROM:', 'sender')
    case 'RCPT':
      return parsePath('RCPT', rest, 'TO:', 'recipient')
    case 'EHLO':
    case 'HELO':
      return rest === '' || rest.includes(' ') ? wrong('argument') : { verb, name: rest }
    case 'AUTH':
      return parseAuth(rest)
    case 'BDAT':
      return parseChunk(rest)
    case 'PROXY':
      return wrong('proxy')
    default: {
      const command = ready.get(verb)
      if (command === undefined) return wrong('unknown')
      return rest !== '' && bare.has(verb) ? wrong('argument') : command
    }
  }
}

function parsePath(verb: 'MAIL' | 'RCPT', rest: string, keyword: string, mistake: Mistake): SmtpCommand {
  if (rest.slice(0, keyword.length).toUpperCase() !== keyword) return wrong('argument')
  // RFC 5321 wants no space here; so many clients write one that everybody takes it.
  const start = keyword.length + (rest[keyword.length] === ' ' ? 1 : 0)
  if (rest[start] !== '<') return wrong(mistake)
  const end = endOfPath(rest, start + 1)
  if (end < 0) return wrong(mistake)
  const path = rest.slice(start + 1, end)
  if (!isPath(path, verb)) return wrong(mistake)
  const parameters = parseParameters(rest, end + 1)
  return parameters === undefined ? wrong('parameter') : { verb, path, parameters }
}

/** Where the closing bracket stands, outside a quoted local part; -1 where the path is not one word. */
function endOfPath(text: string, from: number): number {
  let quoted = false
  for (let at = from; at < text.length; at++) {
    const character = text[at]
    if (quoted) {
      if (character === '\\') at++
      else if (character === '"') quoted = false
    } else if (character === '>') return at
    else if (character === '"' && at === from) quoted = true
    else if (character === ' ' || character === '<' || character === '"') return -1
  }
  return -1
}

/** Its shape only: whether an address is good is for whoever takes the mail to say. */
function isPath(path: string, verb: 'MAIL' | 'RCPT'): boolean {
  if (path === '') return verb === 'MAIL'
  if (verb === 'RCPT' && path.toLowerCase() === 'postmaster') return true // RFC 5321 4.5.1
  const at = path.lastIndexOf('@')
  // `@` first: a source route.
  return at > 0 && path[0] !== '@' && at < path.length - 1 && Buffer.byteLength(path) <= pathOctetsMax
}

const noParameters: Parameters = []

function parseParameters(text: string, from: number): Parameters | undefined {
  if (from === text.length) return noParameters
  if (text[from] !== ' ') return undefined
  const words = text
    .slice(from + 1)
    .split(' ')
    .filter((word) => word !== '')
  const parameters = words.map((word) => {
    const equals = word.indexOf('=')
    return equals < 0
      ? ([word.toUpperCase(), undefined] as const)
      : ([word.slice(0, equals).toUpperCase(), word.slice(equals + 1)] as const)
  })
  const keywords = new Set(parameters.map(([keyword]) => keyword))
  const sound = parameters.every(([keyword, value]) => /^[A-Z0-9][A-Z0-9-]*$/.test(keyword) && value !== '')
  return sound && keywords.size === parameters.length ? parameters : undefined
}

function parseAuth(rest: string): SmtpCommand {
  const [mechanism = '', initial, ...more] = rest.split(' ')
  if (mechanism === '' || more.length > 0) return wrong('argument')
  return { verb: 'AUTH', mechanism: mechanism.toUpperCase(), initial }
}

function parseChunk(rest: string): SmtpCommand {
  const [digits = '', last, ...more] = rest.split(' ')
  if (!/^\d+$/.test(digits) || digits.length > chunkDigitsMax || more.length > 0) return wrong('bdat')
  if (last !== undefined && last.toUpperCase() !== 'LAST') return wrong('bdat')
  return { verb: 'BDAT', bytes: Number(digits), last: last !== undefined }
}
