// Free text inside header fields: as it is where that is safe, else in encoded words (RFC 2047) or extended parameters (RFC 2231).
// Whatever comes in, what goes out is printable ASCII in lines of at most 78 columns, and reads back as the same text.

const columnsMax = 78
const controls = /[\x00-\x1f\x7f-\x9f\u2028\u2029]/g

/** No line break and no control character in any spelling: a reader that decodes the text must not find a line break either. */
export function withoutControls(text: string): string {
  return text.replace(controls, ' ')
}

/** A string whose characters are the octets of the text in UTF-8. */
export function octets(text: string): string {
  return /[^\x00-\x7f]/.test(text) ? Buffer.from(text).toString('latin1') : text
}

/** Printable ASCII that no reader takes for an encoded word. */
export function isPlain(text: string): boolean {
  return /^[\x20-\x7e]*$/.test(text) && !text.includes('=?')
}

/** The text with folds at its spaces; undefined where a fold would not read back exactly, or a word is too long. */
export function foldWords(text: string, column: number): string | undefined {
  if (text.startsWith(' ') || text.endsWith(' ')) return undefined
  if (column + text.length <= columnsMax) return text
  if (text.includes('  ')) return undefined
  let folded = ''
  let at = column
  for (const word of text.split(' ')) {
    if (word.length > columnsMax - column) return undefined
    if (folded === '') folded = word
    else if (at + 1 + word.length > columnsMax) {
      folded += `\r\n ${word}`
      at = 0
    } else folded += ` ${word}`
    at += word.length + 1
  }
  return folded
}

/** RFC 2047: words of at most 75 characters, one a line, never splitting a code point. `column` is where the first one begins. */
export function encodedWords(text: string, column: number): string {
  const wellFormed = text.toWellFormed()
  const bytes = Buffer.byteLength(wellFormed)
  const letters = qEncode(wellFormed)
  const asQ = letters.length <= (bytes * 4) / 3
  const open = asQ ? '=?utf-8?Q?' : '=?utf-8?B?'
  const encode = asQ ? qEncode : (part: string) => Buffer.from(part).toString('base64')
  const widthOf = asQ ? (part: string) => qEncode(part).length : (part: string) => Buffer.byteLength(part)
  /** Characters of Q, or octets of B, that a word can hold in a line of 76 columns. */
  const roomAt = (start: number) => {
    const room = 76 - start - open.length - 2
    return asQ ? room : Math.floor(room / 4) * 3
  }

  const words: string[] = []
  let part = ''
  let room = roomAt(column)
  for (const character of wellFormed) {
    const width = widthOf(character)
    while (width > room && part !== '') {
      const { word, rest } = asQ ? { word: `${open}${encode(part)}?=`, rest: '' } : cutOf(part)
      words.push(word)
      part = rest
      room = roomAt(1) - widthOf(part)
    }
    part += character
    room -= width
  }
  words.push(`${open}${encode(part)}?=`)
  return words.join('\r\n ')
}

/**
 * The next word of Base64, without padding at its end: some readers (GMime) decode all words in a row as one, up to the first padding, and lose
 * the rest. A letter that stands in the way of that goes into a word of Q.
 */
function cutOf(part: string): { readonly word: string; readonly rest: string } {
  const cut = (open: string, encode: (text: string) => string, at: number) => ({
    word: `${open}${encode(part.slice(0, at))}?=`,
    rest: part.slice(at),
  })
  let at = 0
  let octets = 0
  const lastAt = new Map<number, number>()
  const firstAt = new Map<number, number>()
  for (const character of part) {
    at += character.length
    octets += Buffer.byteLength(character)
    lastAt.set(octets % 3, at)
    if (!firstAt.has(octets % 3)) firstAt.set(octets % 3, at)
  }
  const whole = lastAt.get(0)
  const inTheWay = [...firstAt].find(([residue, first]) => first < (lastAt.get(residue) ?? 0))?.[1]
  if (whole === undefined && inTheWay !== undefined) return cut('=?utf-8?Q?', qEncode, inTheWay)
  return cut('=?utf-8?B?', (text) => Buffer.from(text).toString('base64'), whole ?? part.length)
}

/** RFC 2047 4.2 with the letters that are safe in a phrase too (section 5, rule 3). */
function qEncode(text: string): string {
  return text.replace(/[^A-Za-z0-9!*+/-]/gu, (character) =>
    character === ' ' ? '_' : Buffer.from(character).toString('hex').toUpperCase().replace(/../g, '=$&'),
  )
}

/** `filename="..."`, or the extended form of RFC 2231, in as many sections as it needs. */
export function filenameParameter(filename: string): string {
  const simple = isPlain(filename) && !/["%\\]|^ | $/.test(filename) && filename.length <= 60
  if (simple) return `filename="${filename}"`
  const sections: string[] = []
  let section = "utf-8''"
  for (const character of filename.toWellFormed()) {
    const encoded = percentEncode(character)
    if (section.length + encoded.length > 60) {
      sections.push(section)
      section = ''
    }
    section += encoded
  }
  sections.push(section)
  if (sections.length === 1) return `filename*=${section}`
  return sections.map((value, index) => `filename*${index}*=${value}`).join(';\r\n ')
}

/** RFC 2231 7: attribute-char stays. */
function percentEncode(character: string): string {
  if (/^[A-Za-z0-9!#$&+.^_`{|}~-]$/.test(character)) return character
  return Buffer.from(character).toString('hex').toUpperCase().replace(/../g, '%$&')
}
