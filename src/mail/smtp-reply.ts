// An SMTP reply (RFC 5321 4.2), read strictly and within bounds: replies come split at every byte, and from strangers.
// A line ends with CRLF; a bare LF counts as a line end too, as in Postfix: to call `250 OK` + LF malformed would turn an accepted mail
// into `delivery_unknown`. So may a greeting end as a refusal. Everything else that the grammar does not know makes the whole stream untrusted.
import { limits } from '../config.ts'

export interface SmtpReply {
  /** Three digits, 200 to 359 or 400 to 599. */
  readonly code: number
  /** RFC 3463, where the first line carries one whose class agrees with the code: `5.1.1`. */
  readonly enhancedCode?: string
  /** The text of all lines, without codes, joined by line feeds; control characters replaced; bounded. */
  readonly text: string
}

const nothing: Buffer = Buffer.alloc(0)
const CR = 13
const LF = 10
const zero = 48
const enhanced = /^([245])\.\d{1,3}\.\d{1,3}(?=\s|$)/
const controls = /[\x00-\x1f\x7f-\x9f\u2028\u2029]/g

/** Takes what arrives, in any pieces, and gives the replies that are complete. */
export class ReplyReader {
  /** Why the stream is not SMTP. Once set, nothing more is read. */
  malformed: string | undefined
  /** How much text of a reply is kept; an EHLO reply is given more. */
  textCharactersMax: number = limits.replyTextCharactersMax
  #rest = nothing
  #lines = 0
  #code = 0
  #text = ''
  /** The first reply has ended. */
  #greeted = false

  /** True when a reply has begun and not ended. */
  get partial(): boolean {
    return this.#rest.length > 0 || this.#lines > 0
  }

  /** The replies that end in this piece. Those before a malformed one are given; look at `malformed` afterwards. */
  push(chunk: Buffer): SmtpReply[] {
    const replies: SmtpReply[] = []
    if (this.malformed !== undefined) return replies
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    const nul = bytes.indexOf(0)
    let start = 0
    for (let end = bytes.indexOf(LF); end !== -1; end = bytes.indexOf(LF, start)) {
      const last = nul === -1 || nul > end ? this.#line(bytes, start, end) : this.#refuse('a NUL')
      if (this.malformed !== undefined) return replies
      start = end + 1
      if (last) replies.push(this.#finish())
    }
    this.#rest = start === bytes.length ? nothing : bytes.subarray(start)
    if (this.#rest.length >= limits.replyLineBytesMax) this.malformed = 'line too long'
    return replies
  }

  /** Reads one line without its LF. True when it is the last one of its reply. */
  #line(bytes: Buffer, start: number, lf: number): boolean {
    const end = lf > start && bytes[lf - 1] === CR ? lf - 1 : lf
    if (lf - start >= limits.replyLineBytesMax) return this.#refuse('line too long')
    if (++this.#lines > limits.replyLinesMax) return this.#refuse('too many lines')
    const code = codeAt(bytes, start, end)
    if (code === undefined) return this.#refuse('no reply code')
    if (this.#lines > 1 && code !== this.#code) {
      if (!this.#isRefusedBehindTeaser(code)) return this.#refuse('lines with differing codes')
      this.#lines = 1
    }
    const separator = end === start + 3 ? ' ' : String.fromCharCode(bytes[start + 3] ?? 0)
    if (separator !== ' ' && separator !== '-') return this.#refuse('no space or hyphen behind the code')
    this.#code = code
    if (this.#text.length <= this.textCharactersMax) {
      const text = bytes.toString('utf8', Math.min(start + 4, end), end).replace(controls, replacement)
      this.#text = this.#lines === 1 ? text : `${this.#text}\n${text}`
    }
    return separator === ' '
  }

  /**
   * Postfix (postscreen) says one line of its greeting to see who talks before it has ended, looks at the client meanwhile, and ends with what it has decided: `220-mx.example.org
   * ESMTP`, then `521 5.7.1 ... blocked`. Nothing was asked yet, so nobody can take one answer for another.
   */
  #isRefusedBehindTeaser(code: number): boolean {
    return !this.#greeted && this.#code === 220 && code >= 400
  }

  #finish(): SmtpReply {
    this.#greeted = true
    // toWellFormed: the cut may have gone through a pair of surrogates, and PostgreSQL refuses a half.
    const long = this.#text.length > this.textCharactersMax
    const text = long ? this.#text.slice(0, this.textCharactersMax).toWellFormed() : this.#text
    const code = this.#code
    const found = enhanced.exec(text.length > 16 ? text.slice(0, 16) : text)
    this.#lines = 0
    this.#text = ''
    if (found === null || Number(found[1]) !== Math.trunc(code / 100)) return { code, text }
    return { code, enhancedCode: found[0], text }
  }

  #refuse(why: string): false {
    this.malformed = why
    return false
  }
}

/**
 * RFC 5321 4.2: `%x32-35 %x30-35 %x30-39`. Of a refusal any second digit will do, as some write 571 for 5.7.1: the first one alone says what to
 * do (4.3.2), and to call it malformed would try again what was refused for good, or leave it unknown.
 */
function codeAt(bytes: Buffer, start: number, end: number): number | undefined {
  if (end - start < 3) return undefined
  const first = (bytes[start] ?? 0) - zero
  const second = (bytes[start + 1] ?? 0) - zero
  const third = (bytes[start + 2] ?? 0) - zero
  if (first < 2 || first > 5 || second < 0 || second > (first < 4 ? 5 : 9) || third < 0 || third > 9) return undefined
  return first * 100 + second * 10 + third
}

function replacement(control: string): string {
  return control === '\t' ? ' ' : '\ufffd'
}
