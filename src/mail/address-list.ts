// The addresses of a From or Sender field (RFC 5322 3.4): display names, comments and quotes are passed over. Whatever could be read
// in two ways is no list: groups, empty elements, two brackets, words behind a bracket, a comment inside an address or without an end, control
// characters, and before the brackets another address without quotes, which some readers take for the one that is meant; or with them, where a
// character stands that ends an address for some.
import { withoutBlanks } from './header-block.ts'
import { decodeWords } from './mime-field.ts'

/** A tab is a blank (RFC 5322 3.2.2); nothing else of these may stand outside a quoted pair, and nobody writes one. */
const controls = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]/

/** The addr-specs as written, or undefined where the text is no plain list of addresses. */
export function addressSpecs(text: string): string[] | undefined {
  if (controls.test(text)) return undefined
  const found: string[] = []
  let outside = ''
  /** Of that, what no quotes protect. */
  let words = ''
  let inside: string | undefined
  const take = (): boolean => {
    const spec = inside ?? withoutBlanks(outside)
    const isOther = inside !== undefined && namesAnother(outside, words, inside)
    outside = ''
    words = ''
    inside = undefined
    return found.push(spec) > 0 && !isOther && spec !== '' && !/[\s"()<>[\]\\]/.test(spec)
  }
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at)
    if (character === '(') {
      at = commentEnd(text, at)
      if (at === text.length) return undefined
      outside += ' '
    } else if (character === '"') {
      const end = quoteEnd(text, at)
      if (inside !== undefined) return undefined
      outside += text.slice(at, end + 1)
      at = end
    } else if (character === '<') {
      const end = text.indexOf('>', at)
      if (inside !== undefined || end < 0) return undefined
      inside = withoutBlanks(text.slice(at + 1, end))
      at = end
    } else if (character === ',') {
      if (!take()) return undefined
    } else if (':;>'.includes(character)) return undefined
    else if (inside === undefined) {
      outside += character
      words += character
    } else if (character !== ' ' && character !== '\t') return undefined
  }
  return take() ? found : undefined
}

/** Specials (RFC 5322 3.2.3) that stand in no name without quotes. Python reads `"c@d" ] <a@b>` as two addresses, or as the first alone. */
const misplaced = /[)[\]\\]/

/** Whether some reader takes a part of the name for the address. */
function namesAnother(name: string, words: string, spec: string): boolean {
  if (words.includes('@')) return withoutBlanks(name).toLowerCase() !== spec.toLowerCase()
  return misplaced.test(words) && decodeWords(name).includes('@')
}

/** Where the comment that begins here ends; comments nest. An open one goes to the end. */
function commentEnd(text: string, start: number): number {
  let depth = 0
  for (let at = start; at < text.length; at++) {
    const character = text[at]
    if (character === '\\') at++
    else if (character === '(') depth++
    else if (character === ')' && --depth === 0) return at
  }
  return text.length
}

function quoteEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '"') return at
  }
  return text.length
}
