// The text of an HTML part, for the record of a message that has no plain one. Not a renderer: tags go, blocks become lines, what nobody
// reads (scripts, styles, comments, the head's title) goes with its content. One pass, linear, whatever comes, and no further than anybody reads.
import { limits } from '../config.ts'

/** What nobody reads, and how it ends. */
const unread = new Map(
  ['script', 'style', 'title', 'template'].map((name) => [name, new RegExp(`</${name}`, 'gi')] as const),
)
/** What a browser begins a line for (HTML 15.3). */
const blocks =
  /^(?:address|article|aside|blockquote|br|caption|center|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|header|hgroup|hr|legend|li|listing|main|menu|nav|ol|optgroup|option|p|pre|search|section|summary|table|tbody|tfoot|thead|tr|ul|xmp)$/
const cells = /^(?:td|th)$/
/** Line ends inside are the text's own. */
const asTyped = /^(?:listing|pre|textarea|xmp)$/
/** Behind a `<!--`; `<!-->` and `<!--->` are whole comments (HTML 13.2.5.43, 13.2.5.44). */
const emptyComment = /-?>/y
const commentEnd = /--!?>/g
const tagName = /<\/?([a-z][a-z0-9]{0,20})/iy
/** What ends a tag, or may hide such an end: a value. A quote that opens no value is a letter (HTML 13.2.5). */
const tagPiece = />|=\s*(?:(["'])|[^\s>]*)/g
/** A value with a `>` in it that is longer is none: somebody forgot to close a quote. */
const quotedCharactersMax = 2_000

export function textOfHtml(html: string): string {
  let out = ''
  let quotesHold = true
  let pieces = 0
  let coded = 0
  /** How many elements are open whose line ends stay. */
  let typed = 0
  for (let at = 0; at < html.length && pieces < limits.htmlPiecesMax; pieces++) {
    const tag = html.indexOf('<', at)
    const ends = tag < 0 ? html.length : tag
    const text = html.slice(at, Math.min(ends, at + limits.bodyTextBytesMax))
    const readable = text.includes('&') ? text.slice(0, limits.htmlCodedCharactersMax - coded) : text
    if (readable !== '') out += plain(readable, typed > 0)
    // What comes behind a text that was cut does not belong to it.
    if (readable.length < ends - at || out.length >= limits.bodyTextBytesMax) break
    if (text.includes('&')) coded += text.length
    if (tag < 0) break
    if (html.startsWith('<!--', tag)) {
      at = behindComment(html, tag + 4)
      continue
    }
    tagName.lastIndex = tag
    const name = tagName.exec(html)?.[1]?.toLowerCase()
    if (name === undefined && !/[!?/]/.test(html.charAt(tag + 1))) {
      out += '<'
      at = tag + 1
      continue
    }
    if (name === undefined) {
      at = behind(html, '>', tag)
      continue
    }
    // A tag without an end has swallowed all that follows: from here on no quote is trusted, so that nothing is looked at a third time.
    const end: number | undefined = quotesHold ? behindTag(html, tagName.lastIndex) : undefined
    quotesHold = end !== undefined
    at = end ?? behind(html, '>', tag)
    const opens = html[tag + 1] !== '/'
    if (asTyped.test(name)) {
      typed = Math.max(0, typed + (opens ? 1 : -1))
      // The first line end in it is not part of it (HTML 13.2.6.4.7).
      if (opens) at = behindLineEnd(html, at)
    }
    const ending = opens ? unread.get(name) : undefined
    if (ending !== undefined) at = behind(html, '>', behindMatch(html, ending, at))
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

function behindMatch(text: string, what: RegExp, from: number): number {
  what.lastIndex = from
  return what.test(text) ? what.lastIndex : text.length
}

function behindComment(html: string, from: number): number {
  emptyComment.lastIndex = from
  return emptyComment.test(html) ? emptyComment.lastIndex : behindMatch(html, commentEnd, from)
}

function behindLineEnd(html: string, at: number): number {
  return html.startsWith('\r\n', at) ? at + 2 : html[at] === '\n' || html[at] === '\r' ? at + 1 : at
}

/** The end where it does not come any more. */
function behind(text: string, what: string, from: number): number {
  const at = text.indexOf(what, from)
  return at < 0 ? text.length : at + what.length
}

/**
 * Where a tag ends, undefined where it does not. A `>` inside a quoted value is part of it, unless the quote is never closed, or too far away:
 * then that `>` is the end.
 */
function behindTag(html: string, from: number): number | undefined {
  /** Of the first `>` behind a quote; searched again only beyond it, so that all searches together are one pass. */
  let end = -1
  tagPiece.lastIndex = from
  for (let piece = tagPiece.exec(html); piece !== null; piece = tagPiece.exec(html)) {
    const at = tagPiece.lastIndex
    if (piece[0] === '>') return at
    const quote = piece[1]
    if (quote === undefined) continue
    const close = html.indexOf(quote, at)
    if (end < at) end = behind(html, '>', at)
    if (close < 0 || (end <= close && close - at > quotedCharactersMax)) return end
    tagPiece.lastIndex = close + 1
  }
  return undefined
}

/** HTML 4's names of U+00A0 to U+00FF, in order. */
const latin1 = `nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr
  deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest
  Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml
  ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig
  agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml
  eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml`

const named: ReadonlyMap<string, string> = new Map([
  ...latin1.split(/\s+/).map((name, at): [string, string] => [name, String.fromCharCode(0xa0 + at)]),
  ...Object.entries({
    amp: '&',
    lt: '<',
    gt: '>',
    quot: '"',
    apos: "'",
    OElig: 'Œ',
    oelig: 'œ',
    Scaron: 'Š',
    scaron: 'š',
    Yuml: 'Ÿ',
    circ: 'ˆ',
    tilde: '˜',
    ensp: '\u2002',
    emsp: '\u2003',
    thinsp: '\u2009',
    zwnj: '\u200c',
    zwj: '\u200d',
    lrm: '\u200e',
    rlm: '\u200f',
    ndash: '–',
    mdash: '—',
    lsquo: '‘',
    rsquo: '’',
    sbquo: '‚',
    ldquo: '“',
    rdquo: '”',
    bdquo: '„',
    dagger: '†',
    Dagger: '‡',
    bull: '•',
    hellip: '…',
    permil: '‰',
    lsaquo: '‹',
    rsaquo: '›',
    euro: '€',
    trade: '™',
    larr: '←',
    uarr: '↑',
    rarr: '→',
    darr: '↓',
    minus: '−',
    ne: '≠',
    le: '≤',
    ge: '≥',
  }),
])

function plain(text: string, typed: boolean): string {
  const read = text.includes('&')
    ? text.replace(
        /&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z][a-z0-9]{1,7}));/gi,
        (whole, hex: string, digits: string, name: string) =>
          name !== undefined
            ? (named.get(name) ?? whole)
            : character(Number.parseInt(hex ?? digits, hex === undefined ? 10 : 16)),
      )
    : text
  if (typed) return read.replace(/\r\n?/g, '\n').replace(/[\t\f\u00a0]/g, ' ')
  return read.replace(/[ \t\r\n\f\u00a0]{2,}|[\t\r\n\f\u00a0]/g, ' ')
}

/** What the numbers 128 to 159 stand for: characters of windows-1252, where it has one (HTML 13.2.5.80). */
const windows1252 = '€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ'

function character(code: number): string {
  if (code === 10) return '\n'
  if (code > 0x10ffff || code < 32) return ' '
  if (code >= 0x80 && code < 0xa0) return windows1252.charAt(code - 0x80)
  return code >= 0xd800 && code < 0xe000 ? '\ufffd' : String.fromCodePoint(code)
}
