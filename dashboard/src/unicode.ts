// Domains beyond ASCII as people write them: the service keeps and tells them as DNS has them (`xn--mller-kva.example`), and browsers offer no way back. The
// other form only ever stands beside that one, never in its place: letters of two scripts look alike.

/** Of a domain or an address; undefined where there is nothing to tell. */
export function unicodeOf(name: string): string | undefined {
  const at = name.lastIndexOf('@') + 1
  const labels = name.slice(at).split('.')
  const told = labels.map((label) => (/^xn--/i.test(label) ? decoded(label.slice(4).toLowerCase()) : label))
  if (told.includes(undefined)) return undefined
  const text = `${name.slice(0, at)}${told.join('.')}`
  return text === name ? undefined : text
}

const digits = 'abcdefghijklmnopqrstuvwxyz0123456789'
const base = 36
const leastThreshold = 1
const mostThreshold = 26

/** Punycode (RFC 3492 6.2); undefined of what is none. */
function decoded(label: string): string | undefined {
  const cut = label.lastIndexOf('-')
  const points = Array.from(label.slice(0, Math.max(0, cut)), (char) => char.codePointAt(0) ?? 0)
  let [point, bias, at] = [128, 72, 0]
  for (let read = cut + 1; read < label.length;) {
    const before = at
    for (let weight = 1, k = base; ; k += base) {
      const digit = digits.indexOf(label[read++] ?? ' ')
      if (digit < 0) return undefined
      at += digit * weight
      const threshold = Math.min(Math.max(k - bias, leastThreshold), mostThreshold)
      if (digit < threshold) break
      weight *= base - threshold
    }
    const length = points.length + 1
    bias = adapted(at - before, length, before === 0)
    point += Math.floor(at / length)
    at %= length
    if (point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return undefined
    points.splice(at++, 0, point)
  }
  return String.fromCodePoint(...points)
}

/** RFC 3492 6.1. */
function adapted(by: number, length: number, isFirst: boolean): number {
  let delta = Math.floor(by / (isFirst ? 700 : 2))
  delta += Math.floor(delta / length)
  let k = 0
  for (; delta > ((base - leastThreshold) * mostThreshold) / 2; k += base)
    delta = Math.floor(delta / (base - leastThreshold))
  return k + Math.floor(((base - leastThreshold + 1) * delta) / (delta + 38))
}
