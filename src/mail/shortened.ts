// A mail whose text, or HTML, is too large for anybody to read cut short, before it is decoded and told. Files in it stay, and so does all of a
// mail that is small.
import { partsShown } from './mail-text.ts'
import { readMime, type MimeEntity } from './mime-entity.ts'

export interface Shortened {
  readonly mail: Buffer
  /** Nothing was cut. */
  readonly whole: boolean
}

/** What is shown of it has at most `textBytesMax` as it stands. Where other readers may see other parts, the whole mail ends there. */
export function shortened(mail: Buffer, textBytesMax: number): Shortened {
  if (mail.length <= textBytesMax) return { mail, whole: true }
  const root = readMime(mail)
  if (root.malformed || root.exceeded.length > 0) return { mail: mail.subarray(0, textBytesMax), whole: false }
  const pieces: Buffer[] = []
  let from = 0
  let left = textBytesMax
  for (const body of bodiesShown(root)) {
    const kept = Math.min(left, body.length)
    left -= kept
    if (kept === body.length) continue
    const start = body.byteOffset - mail.byteOffset
    pieces.push(mail.subarray(from, start + kept))
    from = start + body.length
  }
  return { mail: Buffer.concat([...pieces, mail.subarray(from)]), whole: pieces.length === 0 }
}

/** In the order of the mail, of which they are views: what is shown stands in no mail inside the mail. */
function bodiesShown(root: MimeEntity): Buffer[] {
  const { plain, html } = partsShown(root)
  const bodies = [plain, html].flatMap((part) => (part === undefined ? [] : [part.body]))
  return bodies.sort((one, other) => one.byteOffset - other.byteOffset)
}
