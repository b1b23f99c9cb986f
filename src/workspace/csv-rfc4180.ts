// Comma-separated values, RFC 4180: quoted cells with commas, doubled quotes and line breaks. Lenient about line ends and about what parts the cells, as
// files of people are.

export interface CsvLine {
  /** Where it begins in the file, from 1. */
  readonly line: number
  readonly cells: readonly string[]
}

/** No line of a file that people made has more; what has comes in pieces, so that none takes long. */
const cellsMax = 1_000
const quotedCharactersMax = 100_000
/** Whoever reads lets others have a turn at each line: so many blank ones that follow each other are told as one that is wrong. */
const blankLinesMax = 10_000

export type Separator = ',' | ';' | '\t'

/** The one behind the first cell: where that is a name or an address, it has none of them in it. */
export function separatorOf(text: string): Separator {
  const start = /^\ufeff?[\r\n ]*/.exec(text)?.[0].length ?? 0
  const [, end] = readCell(text, start, ',;\t')
  const mark = text[end]
  return mark === ';' || mark === '\t' ? mark : ','
}

/** All lines that are not blank, unless very many are. A byte order mark is skipped. */
export function* readCsv(text: string, separator: Separator = ','): Generator<CsvLine> {
  const size = text.length
  let at = text.startsWith('\ufeff') ? 1 : 0
  let line = 1
  let blank = 0
  while (at < size) {
    const begins = line
    const cells: string[] = []
    for (;;) {
      const [cell, next, breaks] = readCell(text, at, separator)
      cells.push(cell)
      line += breaks
      at = next
      if (text[at] !== separator) break
      at++
      if (cells.length === cellsMax) yield { line: begins, cells: cells.splice(0) }
    }
    if (text[at] === '\r') at++
    if (text[at] === '\n') at++
    line++
    const isBlank = cells.length === 1 && cells[0]?.trim() === ''
    if (isBlank && ++blank < blankLinesMax) continue
    blank = 0
    yield { line: begins, cells }
  }
}

/** The cell, which ends at one of `separators` or with its line; where it ends, and how many line breaks are inside. */
function readCell(text: string, start: number, separators: string): [cell: string, next: number, breaks: number] {
  if (text[start] !== '"') {
    const end = endOfPlain(text, start, separators)
    return [text.slice(start, end), end, 0]
  }
  let cell = ''
  let at = start + 1
  for (;;) {
    const quote = text.indexOf('"', at)
    const until = quote === -1 ? text.length : quote
    cell += text.slice(at, until)
    if (text[until + 1] !== '"' || quote === -1 || cell.length > quotedCharactersMax) {
      // What stands between the closing quote and the next separator is not hidden: it makes the cell a wrong one.
      const end = endOfPlain(text, Math.min(until + 1, text.length), separators)
      // In one that is too long, and so a wrong one, not all of it is counted.
      const breaks = cell.slice(0, 2 * quotedCharactersMax).split('\n').length - 1
      return [cell + text.slice(until + 1, end), end, breaks]
    }
    cell += '"'
    at = until + 2
  }
}

/** What ends a cell without quotes. One expression for each set of separators: a cell may be the whole file, and sign by sign that takes too long. */
const endsOf = new Map(
  [',', ';', '\t', ',;\t'].map((separators) => [separators, new RegExp(`[${separators}\\r\\n]`, 'g')] as const),
)

function endOfPlain(text: string, start: number, separators: string): number {
  const end = endsOf.get(separators)
  if (end === undefined) throw new Error(`no cells are parted by ${separators}`)
  end.lastIndex = start
  return end.exec(text)?.index ?? text.length
}

/** One line with its end. */
export function writeCsv(cells: readonly string[]): string {
  return `${cells.map((cell) => (/[",\r\n]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(',')}\r\n`
}
