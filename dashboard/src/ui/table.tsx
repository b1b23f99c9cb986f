// Rows to scan with the eye. On a phone a table scrolls in its own box, and the page does not.
import type { ReactNode } from 'react'

export interface Column<Row> {
  readonly head: string
  readonly cell: (row: Row) => ReactNode
  readonly align?: 'right'
  /** Left out where there is little room. */
  readonly wideOnly?: boolean
}

export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
}: {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
}) {
  const place = ({ align, wideOnly }: Column<Row>) =>
    `px-3 sm:px-5 ${align === 'right' ? 'text-right' : 'text-left'} ${wideOnly === true ? 'hidden md:table-cell' : ''}`
  return (
    // What only screen readers see lies inside this box, too: without `relative` it would make the page itself wider.
    <div className="relative overflow-x-auto" tabIndex={0} role="group" aria-label={label}>
      <table className="w-full border-collapse text-sm">
        <thead>
          <tr className="border-b border-line">
            {columns.map((column) => (
              <th
                key={column.head}
                scope="col"
                className={`${place(column)} py-2 text-xs font-medium whitespace-nowrap text-soft`}
              >
                {column.head === '' ? <span className="sr-only">Actions</span> : column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} className="border-b border-line last:border-0 hover:bg-sunken/60">
              {columns.map((column) => (
                <td key={column.head} className={`${place(column)} max-w-60 py-2.5 align-middle break-words`}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
