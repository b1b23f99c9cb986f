// Looks into files for what the built-in check knows, the EICAR test file, wherever it is hidden: archives in archives, mails in mails,
// encodings in encodings, within stated limits. It is no antivirus engine, and says so; but its limits hold beside an engine as well, which
// may call a bomb clean that it has given up on. Runs in a thread of its own: everything here is synchronous and bounded.
import { limits } from '../config.ts'
import { attachedFiles, sizeOf } from '../mail/attached-files.ts'
import { mailTextOf } from '../mail/mail-text.ts'
import { everyEntity, readMime, type MimeMessage } from '../mail/mime-entity.ts'
import { looksLikeMail, looksLikeText, mimeLeaves } from '../mail/mime-leaves.ts'
import { Allowance, Beyond, OutOfTime } from './allowance.ts'
import { gzipMembers, tarMembers, zipMembers, type Member } from './archives.ts'
import { eicarName, holdsEicar } from './eicar.ts'
import type { ScanFile } from './scan.ts'

export interface ExamineOrder {
  readonly files: readonly (Omit<ScanFile, 'bytes'> & { readonly bytes: Uint8Array })[]
  /** Whether an engine wants the leaves of mails, each for itself. */
  readonly wantsLeaves: boolean
  readonly ms: number
}

export type Findings =
  | {
      readonly kind: 'clean'
      /** What could not be looked into: `encrypted`, `method`. */
      readonly opaque: readonly string[]
      readonly leaves: readonly { readonly position: number; readonly bytes: Uint8Array }[]
      /** Of the mail that wants it. */
      readonly text?: string
    }
  | { readonly kind: 'infected'; readonly position: number; readonly signature: string }
  | { readonly kind: 'refused'; readonly position: number; readonly why: string }
  /** A submitted mail with more attached to it than a message may have: so many files, or too large. */
  | { readonly kind: 'overfull'; readonly count: number }
  | { readonly kind: 'late' }

interface Examination {
  readonly allowance: Allowance
  readonly opaque: Set<string>
}

export function examine({ files, wantsLeaves, ms }: ExamineOrder): Findings {
  const allowance = new Allowance(ms)
  const examination: Examination = { allowance, opaque: new Set() }
  const leaves: { position: number; bytes: Uint8Array }[] = []
  let text: string | undefined
  for (const [position, { contentType, filename, bytes, isWholeMail, wantsText }] of files.entries()) {
    const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const mail = isWholeMail === true ? readMime(file) : undefined
    if (mail !== undefined) {
      const why = whyUnseen(mail)
      if (why !== undefined) return { kind: 'refused', position, why }
      const attached = attachedFiles(mail)
      const { attachmentsMax, attachmentsBytesMax } = limits
      if (attached.length > attachmentsMax || sizeOf(attached, attachmentsBytesMax) > attachmentsBytesMax)
        return { kind: 'overfull', count: attached.length }
      if (wantsText === true) text = mailTextOf(mail)
    }
    const isMail = /^message\//i.test(contentType) || /\.(?:eml|mht|mhtml)$/i.test(filename) || looksLikeMail(file)
    try {
      if (isInfected(examination, file, 0, isMail, mail)) return { kind: 'infected', position, signature: eicarName }
      if (wantsLeaves && isMail)
        for (const leaf of mimeLeaves(file, () => allowance.inTime(), mail)) {
          if (leaf.bytes.length === 0) continue
          if (leaves.length >= limits.scanLeavesMax)
            throw new Beyond(`holds more than ${limits.scanLeavesMax} encoded parts`)
          leaves.push({ position, bytes: new Uint8Array(leaf.bytes) })
        }
    } catch (error) {
      if (error instanceof Beyond) return { kind: 'refused', position, why: error.message }
      if (error instanceof OutOfTime) return { kind: 'late' }
      throw error
    }
  }
  return { kind: 'clean', opaque: [...examination.opaque], leaves, ...(text !== undefined && { text }) }
}

/** Why nobody can say what this mail brings, be it malware or more attachments than it may have. The words complete "It ...". */
function whyUnseen(mail: MimeMessage): string | undefined {
  if (mail.exceeded.length > 0) return 'has more parts, deeper ones or longer headers than are examined'
  // A reader puts the pieces of several mails together (RFC 2046 5.2.2), and only then there is a file.
  for (const { contentType } of everyEntity(mail))
    if (contentType.value === 'message/partial')
      return 'holds a piece of a mail that was cut (message/partial), and is whole only together with others'
  return undefined
}

function isInfected(
  examination: Examination,
  bytes: Buffer,
  depth: number,
  isMail: boolean,
  mail?: MimeMessage,
  isArchive = false,
): boolean {
  if (holdsEicar(bytes)) return true
  const { allowance } = examination
  for (const member of membersOf(bytes, allowance)) {
    if ('opaque' in member) {
      examination.opaque.add(member.opaque)
      continue
    }
    if (depth >= limits.scanDepthMax) throw new Beyond(`is nested more than ${limits.scanDepthMax} deep`)
    if (isInfected(examination, member.bytes, depth + 1, /\.eml$/i.test(member.name ?? ''))) return true
  }
  if (isArchive || (!isMail && !looksLikeText(bytes) && !looksLikeMail(bytes))) return false
  for (const leaf of mimeLeaves(bytes, () => allowance.inTime(), mail)) {
    if (leaf.bytes.length === 0) continue
    allowance.entry()
    allowance.unpacked(leaf.bytes.length, leaf.encodedBytes)
    if (depth >= limits.scanDepthMax) throw new Beyond(`is nested more than ${limits.scanDepthMax} deep`)
    if (isInfected(examination, leaf.bytes, depth + 1, false, undefined, leaf.isArchive)) return true
  }
  return false
}

function* membersOf(bytes: Buffer, allowance: Allowance): Generator<Member> {
  yield* zipMembers(bytes, allowance)
  yield* gzipMembers(bytes, allowance)
  yield* tarMembers(bytes, allowance)
}
