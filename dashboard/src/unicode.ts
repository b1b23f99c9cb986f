// Domains beyond ASCII as people write them: the service keeps and tells them as DNS has them (`xn--mller-kva.example`), and browsers offer no way back. The
// other form only ever stands beside that one, never in its place: letters of two scripts look alike.
import { toUnicode } from 'punycode.js'

/** Of a domain or an address; undefined where there is nothing to tell. */
export function unicodeOf(name: string): string | undefined {
  try {
    const text = toUnicode(name)
    return text === name ? undefined : text
  } catch {
    return undefined // it only looks like Punycode (RFC 3492)
  }
}
