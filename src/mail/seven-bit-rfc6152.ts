// A mail with 8-bit content for a host that takes none (RFC 6152 3): the same mail in 7-bit octets. Bodies that need it are encoded, each
// for itself (RFC 2045 6); composite ones only change their label. The same bytes come out of the same mail, whenever and wherever it is
// done; what is not named here stays as it is, octet by octet, and nothing is guessed: where another reader might see another structure,
// there is no such form.
import { isAscii } from 'node:buffer'
import { readMime, type MimeEntity } from './mime-entity.ts'
import type { MimeField } from './mime-field.ts'
import { decodeTransfer, isEncoded } from './transfer-decoding.ts'
import { encodeOctets } from './transfer-encoding.ts'

/** Octets `[start, end)` of the mail are replaced. */
interface Edit {
  readonly start: number
  readonly end: number
  readonly by: Buffer
}

/**
 * `mail` has lines with CRLF alone, of at most 998 octets. Undefined where there is no such form: a raw 8-bit header field, also of a part;
 * a type that may not be encoded (RFC 2046 5.2.2, 5.2.3); an encoding that we do not know; a structure that is broken or beyond bounds.
 */
export function inSevenBit(mail: Buffer): Buffer | undefined {
  if (isAscii(mail)) return mail
  const root = readMime(mail)
  if (root.malformed || root.exceeded.length > 0) return undefined
  const draft = new Draft(mail)
  draft.message(root)
  const converted = draft.done()
  // Whatever could not be said in 7 bits is still there.
  return isAscii(converted) ? converted : undefined
}

class Draft {
  readonly #mail: Buffer
  readonly #edits: Edit[] = []

  constructor(mail: Buffer) {
    this.#mail = mail
  }

  /** Encodings mean something in a MIME mail only (RFC 2045 4); old mail with raw octets has no such field. */
  message(entity: MimeEntity): void {
    const before = this.#edits.length
    this.#entity(entity)
    const isMime = this.#edits.length === before || entity.fields.some(({ name }) => name === 'mime-version')
    if (!isMime && entity.body.length > 0) this.#addField(entity, 'MIME-Version: 1.0')
  }

  done(): Buffer {
    const pieces: Buffer[] = []
    let from = 0
    for (const { start, end, by } of this.#edits.toSorted((a, b) => a.start - b.start)) {
      pieces.push(this.#mail.subarray(from, start), by)
      from = end
    }
    return Buffer.concat([...pieces, this.#mail.subarray(from)])
  }

  #entity(entity: MimeEntity): void {
    const [type = '', subtype = ''] = entity.contentType.value.split('/')
    if (type === 'multipart') this.#multipart(entity)
    else if (type !== 'message') this.#leaf(entity, type === 'text')
    else if (subtype === 'rfc822') this.#composite(entity, (inner) => this.message(inner))
    // RFC 6532 3.7, RFC 6533: the UTF-8 forms may be encoded as a whole. No other message type may.
    else if (subtype === 'global' || subtype.startsWith('global-')) this.#leaf(entity, true)
  }

  #multipart(entity: MimeEntity): void {
    this.#composite(entity, (part) => this.#entity(part))
    // No reader shows these, and nothing says how they are encoded. With other octets in their place a line might become a delimiter.
    for (const aside of [entity.preamble, entity.epilogue]) if (!isAscii(aside)) this.#replace(aside, Buffer.alloc(0))
  }

  /** Never encoded itself (RFC 2045 6.4). One that says it is, although it may not be, is read differently by everyone. */
  #composite(entity: MimeEntity, each: (part: MimeEntity) => void): void {
    if (!isIdentity(entity.transferEncoding)) return
    if (entity.transferEncoding !== '7bit') this.#label(entity, '7bit')
    entity.parts.forEach(each)
  }

  #leaf(entity: MimeEntity, isText: boolean): void {
    const { body, transferEncoding } = entity
    const identity = isIdentity(transferEncoding)
    if (isAscii(body)) {
      if (identity && transferEncoding !== '7bit') this.#label(entity, '7bit')
      return
    }
    // Raw octets within an encoding that has none: readers take the encoded ones.
    if (!identity && !isEncoded(transferEncoding)) return
    // What was encoded may hold a delimiter, which no Base64 does.
    const { encoding, bytes } = encodeOctets(decodeTransfer(body, transferEncoding), isText && identity)
    this.#label(entity, encoding)
    // A mail ends with a line end; within one it belongs to the delimiter.
    this.#replace(body, bytes)
    const end = this.#startOf(body) + body.length
    if (end === this.#mail.length && !bytes.subarray(-2).equals(lineEnd))
      this.#edits.push({ start: end, end, by: lineEnd })
  }

  /** One Content-Transfer-Encoding, where the first one stood. */
  #label(entity: MimeEntity, encoding: string): void {
    const field = `Content-Transfer-Encoding: ${encoding}`
    const [first, ...others] = entity.fields.filter(({ name }) => name === 'content-transfer-encoding')
    if (first === undefined) this.#addField(entity, field)
    else this.#replace(first.raw, Buffer.from(field))
    for (const { raw } of others) this.#removeLine(raw)
  }

  /** A line more in the header of an entity that has a body. */
  #addField({ body }: MimeEntity, field: string): void {
    const emptyLine = this.#startOf(body) - 2
    this.#edits.push({ start: emptyLine, end: emptyLine, by: Buffer.from(`${field}\r\n`) })
  }

  #removeLine(raw: MimeField['raw']): void {
    const start = this.#startOf(raw)
    this.#edits.push({ start, end: start + raw.length + 2, by: Buffer.alloc(0) })
  }

  #replace(part: Buffer, by: Buffer): void {
    const start = this.#startOf(part)
    this.#edits.push({ start, end: start + part.length, by })
  }

  /** Bodies and fields are views of the mail. */
  #startOf(part: Buffer): number {
    return part.byteOffset - this.#mail.byteOffset
  }
}

const lineEnd = Buffer.from('\r\n')

function isIdentity(encoding: string): boolean {
  return encoding === '7bit' || encoding === '8bit' || encoding === 'binary'
}
