// The result: rows with medians and ratios, what must be and what should be, and the verdict. A row whose peer is not healthy is invalid.
import { saturated, shares } from './cpu.ts'
import type { Usage } from './cpu.ts'

export interface Row {
  readonly name: string
  /** One figure for each pair, as text with its unit. */
  readonly ours: readonly number[]
  readonly unit: string
  readonly peer?: { readonly name: string; readonly figures: readonly number[] }
  readonly better: 'more' | 'less'
  /** Of the ratio where there is a peer, of our own figure where there is none. Rows without are for information. */
  readonly must?: number
  readonly aim?: number
  /** Who used the processors, in the pair whose ratio is the median one. */
  readonly usage?: Usages
  /** Why the comparison says nothing. */
  readonly invalid?: string
}

interface Usages {
  readonly ours: Usage
  readonly peer: Usage
}

interface Measure {
  readonly perSecond: number
  readonly usage: Usage
}

/** Both sides of the pair whose ratio is the median one, or the lower of the two in the middle. */
export function usagesOf(ours: readonly Measure[], peer: readonly Measure[]): { readonly usage?: Usages } {
  const pairs = ours.flatMap((one, index) => {
    const other = peer[index]
    return other === undefined ? [] : [{ ours: one, peer: other, ratio: one.perSecond / other.perSecond }]
  })
  const middle = pairs.sort((one, other) => one.ratio - other.ratio)[Math.floor((pairs.length - 1) / 2)]
  return middle === undefined ? {} : { usage: { ours: middle.ours.usage, peer: middle.peer.usage } }
}

export function median(figures: readonly number[]): number {
  const sorted = [...figures].sort((one, other) => one - other)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2
}

/** The median of the pairs' ratios: both of a pair have met the same machine. */
function ratioOf({ ours, peer }: Row): number | undefined {
  return peer === undefined
    ? undefined
    : median(ours.map((figure, pair) => figure / (peer.figures[pair] ?? Number.NaN)))
}

function verdictOf(row: Row): string {
  if (row.invalid !== undefined) return `invalid: ${row.invalid}`
  if (row.must === undefined || row.aim === undefined) return ''
  const value = ratioOf(row) ?? median(row.ours)
  const reaches = (wanted: number): boolean => (row.better === 'more' ? value >= wanted : value <= wanted)
  if (reaches(row.aim)) return 'aim reached'
  return reaches(row.must) ? 'met' : 'NOT MET'
}

const shown = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString('en-US') : value.toPrecision(3).replace(/\.0+$/, '')

/** As Markdown, which a terminal shows as well. */
export function tableOf(rows: readonly Row[]): string {
  const head = ['figure', 'Posthorn', 'against', 'ratio', 'must', 'aim', 'verdict', 'saturated: ours / the peer']
  const lines = rows.map((row) => {
    const { name, ours, unit, peer, must, aim } = row
    const ratio = ratioOf(row)
    const wanted = (value?: number): string => {
      if (value === undefined) return '-'
      return peer === undefined ? `${shown(value)} ${unit}` : `${value} x`
    }
    return [
      name,
      `${shown(median(ours))} ${unit}`,
      peer === undefined ? '-' : `${peer.name} ${shown(median(peer.figures))} ${unit}`,
      ratio === undefined ? '-' : `${ratio.toPrecision(3)} x`,
      wanted(must),
      wanted(aim),
      verdictOf(row),
      row.usage === undefined ? '-' : `${saturated(row.usage.ours)} / ${saturated(row.usage.peer)}`,
    ]
  })
  const widths = head.map((title, column) =>
    Math.max(...[head, ...lines].map((line) => (line[column] ?? title).length)),
  )
  const drawn = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  return [drawn(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...lines.map(drawn)].join('\n')
}

/** Who used how much of the processors in each row: what the column `saturated` was read from. */
export function sharesOf(rows: readonly Row[]): string {
  return rows
    .flatMap(({ name, peer, usage }) =>
      usage === undefined ? [] : [`* ${name}: ${shares(usage.ours)}; ${peer?.name ?? 'peer'}: ${shares(usage.peer)}`],
    )
    .join('\n')
}
