// A mail as a person wants to look at it: its text, its HTML, and which files it brings. The HTML is what a stranger may have written: `framedHtml`
// makes of it a page that is for a frame which runs nothing and loads nothing (http/management/mail.ts says so to the browser).
import { limits } from '../config.ts'
import { asFile } from './attached-files.ts'
import { mailTextOf, partsShown } from './mail-text.ts'
import { decodedBody, decodedText, everyEntity, fieldValue, readMime, type MimeEntity } from './mime-entity.ts'

export interface PreviewedFile {
  readonly filename: string
  readonly contentType: string
  readonly sizeBytes: number
}

export interface MailPreview {
  readonly text: string
  /** As its author wrote it. */
  readonly html?: string
  /** At most `previewFilesMax`. */
  readonly files: readonly PreviewedFile[]
  /** The address under which the frame shows what the HTML calls `cid:` and this (RFC 2392); undefined where the mail brings no such picture. */
  readonly pictureOf: PictureOf
}
export type PictureOf = (contentId: string) => string | undefined

/** Never throws; of a mail that was cut somewhere, what is there. */
export function previewOf(mail: Buffer): MailPreview {
  const root = readMime(mail)
  const { plain, html } = partsShown(root)
  return {
    text: mailTextOf(root),
    ...(html !== undefined && { html: decodedText(html) }),
    files: filesOf(root, [plain, html]),
    pictureOf: picturesOf(root),
  }
}

/** What every browser shows and nothing can hide in. */
const pictureTypes = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp'])

function picturesOf(root: MimeEntity): PictureOf {
  let addresses: Map<string, () => string> | undefined
  return (contentId) => (addresses ??= pictureAddresses(root)).get(contentId)?.()
}

/** Each is made when it is first asked for, once: HTML may show a picture as often as it likes. */
function pictureAddresses(root: MimeEntity): Map<string, () => string> {
  const addresses = new Map<string, () => string>()
  for (const entity of everyEntity(root)) {
    const type = entity.contentType.value
    const id = /<([^<>]+)>/.exec(fieldValue(entity, 'content-id') ?? '')?.[1]?.trim()
    if (id === undefined || addresses.has(id) || !pictureTypes.has(type)) continue
    let address: string | undefined
    addresses.set(id, () => (address ??= shownAs(type, decodedBody(entity))))
  }
  return addresses
}

/**
 * In a tag a slash parts attributes, and Base64 has slashes: a picture that ends so would give `<a cid:one =//evil.example>` a link. What stands behind `#` is no
 * part of a picture, and the name is another.
 */
function shownAs(type: string, bytes: Buffer): string {
  const address = `data:${type};base64,${bytes.toString('base64')}`
  return /\/href$/i.test(address) ? `${address}#` : address
}

function filesOf(root: MimeEntity, shown: readonly (MimeEntity | undefined)[]): PreviewedFile[] {
  const files: PreviewedFile[] = []
  const within = new Set<MimeEntity>()
  for (const entity of everyEntity(root)) {
    if (within.has(entity)) continue
    const { value } = entity.contentType
    if (value.startsWith('multipart/') || shown.includes(entity)) continue
    // A mail inside the mail is one file, whatever it holds.
    for (const inner of everyEntity(entity)) within.add(inner)
    if (entity === root && value.startsWith('text/')) continue
    const file = asFile(entity)
    if (file === undefined) continue
    files.push({
      filename: file.filename ?? 'unnamed',
      contentType: value,
      sizeBytes: decodedBody(entity).length,
    })
    if (files.length === limits.previewFilesMax) break
  }
  return files
}

/**
 * What a browser already speaks to other hosts for before any policy is asked: names are looked up and connections made for a `link`, a frame, a
 * link that is followed, though nothing is then loaded; and what speaks for the page itself. What moves in a drawing (SVG 2, SMIL) may give a link its
 * address without ever writing `href=`.
 */
const connecting = /<(?=link|meta|base|i?frame|fencedframe|object|embed|portal|set|animate)/gi
const leading = /href(?=\s*=)/gi

/** RFC 2392: the Content-ID without its brackets, percent-encoded. Where it ends depends on who wrote the HTML. */
const ownPart = /\bcid:([^\s"'<>()]{1,500})/gi

/** A page of its own for a frame: without those names, with the pictures that the mail brings along. Everything else is the policy's business. */
export function framedHtml(html: string, pictureOf: PictureOf = () => undefined): string {
  const tame = html.slice(0, limits.previewHtmlCharactersMax).replace(connecting, '<x-').replace(leading, 'x-href')
  return `<!doctype html><html><head><meta charset="utf-8"><title>Mail</title><style>:root{color-scheme:light;background:#fff;color:#17191f;font:14px/1.5 ui-sans-serif,system-ui,sans-serif}body{margin:12px}:where(a){color:#2f5bea;text-decoration:underline}img{max-width:100%}</style></head><body>${withPictures(tame, pictureOf)}</body></html>`
}

function withPictures(html: string, pictureOf: PictureOf): string {
  let left = limits.previewPicturesCharactersMax
  return html.replace(ownPart, (reference, id: string) => {
    const picture = left > 0 ? pictureOf(percentDecoded(id)) : undefined
    if (picture === undefined || picture.length > left) return reference
    left -= picture.length
    return picture
  })
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
