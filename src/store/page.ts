// Pages of lists: one row more than a page is asked for. Where a walk through a bounded number of rows ended before it found enough, its last row says only
// how far it came.

interface Cut<Row> {
  readonly shown: readonly Row[]
  /** The next page begins behind this one; undefined where there is none. */
  readonly last: Row | undefined
}

export function cutPage<Row>(rows: readonly Row[], most: number, isEnd: (row: Row) => boolean = () => false): Cut<Row> {
  const found = rows.filter((row) => !isEnd(row))
  const shown = found.slice(0, most)
  return { shown, last: found.length > most ? shown.at(-1) : rows.find(isEnd) }
}
