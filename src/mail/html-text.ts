// The text of an HTML part, for the record of a message that has no plain one. Not a renderer: tags go, blocks become lines, what nobody
// reads (scripts, styles, comments, the head's title) goes with its content. One pass, linear, whatever comes.

const unread = new Set(['script', 'style', 'title', 'template'])
const blocks =
  /^(?:address|article|blockquote|br|dd|div|dl|dt|footer|h[1-6]|header|hr|li|main|ol|p|pre|section|table|tr|ul)$/
const cells = /^(?:td|th)$/
const tagName = /<\/?([a-z][a-z0-9]{0,20})/y

export function textOfHtml(html: string): string {
  const lower = html.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
  let out = ''
  for (let at = 0; at < html.length;) {
    const tag = html.indexOf('<', at)
    out += plain(html.slice(at, tag < 0 ? html.length : tag))
    if (tag < 0) break
    if (html.startsWith('<!--', tag)) {
      at = behind(html, '-->', tag + 4)
      continue
    }
    tagName.lastIndex = tag
    const name = tagName.exec(lower)?.[1]
    if (name === undefined && !/[!?/]/.test(html.charAt(tag + 1))) {
      out += '<'
      at = tag + 1
      continue
    }
    at = behind(html, '>', tag)
    if (name === undefined) continue
    if (unread.has(name) && html[tag + 1] !== '/') at = behind(html, '>', behind(lower, `</${name}`, at))
    else if (blocks.test(name)) out += '\n'
    else if (cells.test(name)) out += ' '
  }
  return out
    .split('\n')
    .map((line) => line.trim())
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

/** The end where it does not come any more. */
function behind(text: string, what: string, from: number): number {
  const at = text.indexOf(what, from)
  return at < 0 ? text.length : at + what.length
}

const named: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: ' ',
  copy: '©',
  reg: '®',
  euro: '€',
  ndash: '–',
  mdash: '—',
  hellip: '…',
  auml: 'ä',
  ouml: 'ö',
  uuml: 'ü',
  Auml: 'Ä',
  Ouml: 'Ö',
  Uuml: 'Ü',
  szlig: 'ß',
  eacute: 'é',
}

function plain(text: string): string {
  const read = text.includes('&')
    ? text.replace(
        /&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]{2,8}));/gi,
        (whole, hex: string, digits: string, name: string) =>
          name !== undefined
            ? (named[name] ?? whole)
            : character(Number.parseInt(hex ?? digits, hex === undefined ? 10 : 16)),
      )
    : text
  return read.replace(/[ \t\r\n\f\u00a0]+/g, ' ')
}

function character(code: number): string {
  return code > 0x10ffff || code < 32 ? ' ' : String.fromCodePoint(code)
}
