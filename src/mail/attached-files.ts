// Which parts of a mail are files, and which of these its author has attached to it: what the limits of a message count (specification 8).
import { decodeWords, parseParameterized } from './mime-field.ts'
import { decodedBody, fieldValue, type MimeEntity } from './mime-entity.ts'

export interface FilePart {
  /** Decoded; left out where it has none. */
  readonly filename?: string
  readonly isAttachment: boolean
}

/** Undefined for a text that is to be read where it stands. What is no text is a file, whatever it says of itself. For parts that are no multipart. */
export function asFile(entity: MimeEntity): FilePart | undefined {
  const disposition = parseParameterized(fieldValue(entity, 'content-disposition') ?? '')
  const name = disposition.parameters.get('filename') ?? entity.contentType.parameters.get('name')
  const isAttachment = disposition.value === 'attachment'
  if (name === undefined && !isAttachment && entity.contentType.value.startsWith('text/')) return undefined
  return { ...(name !== undefined && { filename: decodeWords(name) }), isAttachment }
}

/** These have parts that belong to what is shown, or prove it: pictures, the forms of one text, a signature (RFC 2387, 2046 5.1.4, 1847). */
const isOneThing = new Set(['multipart/related', 'multipart/alternative', 'multipart/signed'])

/**
 * The files that a reader lists beside the text. A mail inside the mail is one file, whatever it holds; a picture that the text shows is none,
 * unless it calls itself an attachment, and a signature is none.
 */
export function attachedFiles(root: MimeEntity): MimeEntity[] {
  const files: MimeEntity[] = []
  const waiting = [{ entity: root, inOneThing: false }]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { entity, inOneThing } = next
    const type = entity.contentType.value
    if (type.startsWith('multipart/')) {
      const parts = type === 'multipart/signed' ? entity.parts.slice(0, 1) : entity.parts
      for (const part of parts) waiting.push({ entity: part, inOneThing: isOneThing.has(type) })
      continue
    }
    const file = asFile(entity)
    if (file !== undefined && (file.isAttachment || !inOneThing)) files.push(entity)
  }
  return files
}

/** Decoded sizes together. Where even the encoded ones are within `enough`, these: nothing is decoded then. */
export function sizeOf(files: readonly MimeEntity[], enough: number): number {
  const encoded = files.reduce((sum, { body }) => sum + body.length, 0)
  return encoded <= enough ? encoded : files.reduce((sum, file) => sum + decodedBody(file).length, 0)
}
