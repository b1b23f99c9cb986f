// A mail with texts that are too large for anybody to read cut short: who reads it whole (an outside parser) takes thirty times the size of a
// text while it does. Files in it stay, and so does all of a mail that is small.
import { everyEntity, fieldValue, readMime, type MimeEntity } from './mime-entity.ts'

export interface Shortened {
  readonly mail: Buffer
  /** Nothing was cut. */
  readonly whole: boolean
}

/** All texts together have at most `textBytesMax` as they stand. Where other readers may see other parts, the whole mail ends there. */
export function shortened(mail: Buffer, textBytesMax: number): Shortened {
  if (mail.length <= textBytesMax) return { mail, whole: true }
  const root = readMime(mail)
  if (root.malformed || root.exceeded.length > 0) return { mail: mail.subarray(0, textBytesMax), whole: false }
  const pieces: Buffer[] = []
  let from = 0
  let left = textBytesMax
  for (const entity of everyEntity(root)) {
    if (!isText(entity) || !isWithin(entity.body, mail)) continue
    const start = entity.body.byteOffset - mail.byteOffset
    const end = start + entity.body.length
    const kept = Math.min(left, entity.body.length)
    left -= kept
    if (kept === entity.body.length) continue
    pieces.push(mail.subarray(from, start + kept))
    from = end
  }
  return { mail: Buffer.concat([...pieces, mail.subarray(from)]), whole: pieces.length === 0 }
}

/** What is shown as text. A text file is a file. */
function isText(entity: MimeEntity): boolean {
  if (!/^text\/(?:plain|html)$/.test(entity.contentType.value)) return false
  return !/^\s*attachment\b/i.test(fieldValue(entity, 'content-disposition') ?? '')
}

/** Parts of a message that came encoded are views of something else. */
function isWithin(part: Buffer, mail: Buffer): boolean {
  return part.buffer === mail.buffer && part.byteOffset >= mail.byteOffset
}
