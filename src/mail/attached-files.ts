// Which parts of a mail are files, and which of these its author has attached to it: what the limits of a message count (specification 8).
import { decodeWords, parseParameterized, unfolded } from './mime-field.ts'
import { decodedBody, type MimeEntity } from './mime-entity.ts'

export interface FilePart {
  /** Decoded; left out where it has none. */
  readonly filename?: string
  readonly isAttachment: boolean
}

/** Undefined for a text that is to be read where it stands. What is no text is a file, whatever it says of itself. For parts that are no multipart. */
export function asFile(entity: MimeEntity): FilePart | undefined {
  // Of two readers differ in which counts.
  const dispositions = entity.fields
    .filter(({ name }) => name === 'content-disposition')
    .map((field) => parseParameterized(unfolded(field)))
  const named = dispositions.find(({ parameters }) => parameters.has('filename'))
  const name = named?.parameters.get('filename') ?? entity.contentType.parameters.get('name')
  const isAttachment = dispositions.some(({ value }) => value === 'attachment')
  if (name === undefined && !isAttachment && entity.contentType.value.startsWith('text/')) return undefined
  return { ...(name !== undefined && { filename: decodeWords(name) }), isAttachment }
}

/**
 * What belongs to the thing that such a multipart is: the forms of one text, an invitation among them (RFC 2046 5.1.4, 5546); what the text shows
 * (RFC 2387); the proof of a signature (RFC 1847). Anything else is a file, wherever it hides.
 */
const belongs = new Map([
  ['multipart/alternative', /^text\//],
  ['multipart/related', /^(?:text|image|audio|video|font)\//],
  ['multipart/signed', /^application\/(?:pgp-signature|(?:x-)?pkcs7-signature)$/],
])

/**
 * The files that a reader lists beside the text. A mail inside the mail is one file, whatever it holds; a picture that the text shows is none,
 * unless it calls itself an attachment, and a signature is none.
 */
export function attachedFiles(root: MimeEntity): MimeEntity[] {
  const files: MimeEntity[] = []
  const waiting: { entity: MimeEntity; within: string }[] = [{ entity: root, within: '' }]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { entity, within } = next
    const type = entity.contentType.value
    if (type.startsWith('multipart/')) {
      for (const part of entity.parts) waiting.push({ entity: part, within: type })
      continue
    }
    const file = asFile(entity)
    if (file === undefined) continue
    const isPart = belongs.get(within)?.test(type) === true
    if (!isPart || (file.isAttachment && within !== 'multipart/signed')) files.push(entity)
  }
  return files
}

/** Decoded sizes together. Where even the encoded ones are within `enough`, these: nothing is decoded then. */
export function sizeOf(files: readonly MimeEntity[], enough: number): number {
  const encoded = files.reduce((sum, { body }) => sum + body.length, 0)
  return encoded <= enough ? encoded : files.reduce((sum, file) => sum + decodedBody(file).length, 0)
}
