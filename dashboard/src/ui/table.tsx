// Rows to scan with the eye. Where the columns have no room beside each other, as on a phone, two stay, the first and one beside it; the others stand
// below the first. Nothing is cut off there, and nothing scrolls sideways: nobody would know that one can.
import {
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
  type MouseEvent,
  type ReactNode,
} from 'react'

export interface Column<Row> {
  readonly head: string
  readonly cell: (row: Row) => ReactNode
  readonly align?: 'right'
  /** Where there is little room it stands below the first cell, with its head. Of the others the last stands beside the first. */
  readonly wideOnly?: boolean
  /** Of the first: a press anywhere in the row is one of the link, or the button, in this cell. */
  readonly leads?: boolean
  /** It takes the room that the others leave, and its words are cut to that: they can be read elsewhere. */
  readonly gives?: boolean
  /** They are read badly in a column as narrow as a word: where this has no room the others stand below it. */
  readonly sentences?: boolean
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
  const [box, isWide] = useRoom()
  const beside = columns.findLast(({ wideOnly }) => wideOnly !== true)
  const shown = isWide ? columns : columns.filter((column, index) => index === 0 || column === beside)
  const below = columns.filter((column) => !shown.includes(column))
  const leads = columns[0]?.leads === true
  const place = ({ align }: Column<Row>) =>
    `px-3 sm:first:pl-5 sm:last:pr-5 xl:px-5 ${align === 'right' ? 'text-right' : 'text-left'}`
  return (
    // What only screen readers see lies inside this box, too: without `relative` it would make the page itself wider.
    <div
      ref={box}
      data-narrow={below.length > 0 || undefined}
      className="relative overflow-x-auto"
      tabIndex={0}
      role="group"
      aria-label={label}
    >
      <table className="w-full border-collapse text-sm">
        <thead>
          <tr className="border-b border-line">
            {shown.map((column, index) => (
              <th
                key={column.head}
                scope="col"
                className={`${place(column)} ${isWide || index === 0 ? '' : 'pl-0'} py-2 text-xs font-medium whitespace-nowrap text-soft`}
              >
                {column.head === '' ? <span className="sr-only">Actions</span> : column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            // The keyboard and those who listen have the link itself.
            <tr
              key={keyOf(row)}
              className={`border-b border-line last:border-0 ${leads ? 'cursor-pointer hover:bg-sunken/60' : ''}`}
              onClick={leads ? follow : undefined}
            >
              {shown.map((column, index) => (
                <td
                  key={column.head}
                  className={`${place(column)} py-2.5 ${isWide ? roomOf(column) : index === 0 ? narrowFirst : 'pl-0'} ${below.length > 0 ? 'align-top' : 'align-middle'}`}
                >
                  {index === 0 && leads ? (
                    <div data-leads className="contents">
                      {column.cell(row)}
                    </div>
                  ) : (
                    column.cell(row)
                  )}
                  {index === 0 && <Below columns={below} row={row} />}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const roomOf = <Row,>({ gives, sentences }: Column<Row>): string =>
  gives === true ? 'w-1/2 max-w-0' : `${sentences === true ? 'min-w-70 max-w-96' : 'max-w-60'} break-words`

/** Not where something else was meant: another link or button, or words that are being selected to be copied. */
function follow(event: MouseEvent<HTMLTableRowElement>): void {
  const { currentTarget: row, target, ctrlKey, metaKey, shiftKey } = event
  if (!(target instanceof Element) || !row.contains(target)) return
  if (target.closest('a, button, input, select, summary, label') !== null) return
  if (window.getSelection()?.isCollapsed === false) return
  const press = new window.MouseEvent('click', { bubbles: true, cancelable: true, ctrlKey, metaKey, shiftKey })
  row.querySelector('[data-leads] :is(a, button)')?.dispatchEvent(press)
}

/** What the cell beside it leaves, however long its words are. */
const narrowFirst = 'w-full max-w-0 wrap-anywhere'

function Below<Row>({ columns, row }: { readonly columns: readonly Column<Row>[]; readonly row: Row }) {
  const told = columns.flatMap(({ head, cell }) => {
    const content = cell(row)
    return content === null || content === undefined || content === false ? [] : [[head, content] as const]
  })
  if (told.length === 0) return null
  return (
    <dl className="mt-1.5 grid gap-1 text-xs">
      {told.map(([head, content]) => (
        // In one line where both have room.
        <div key={head} className="flex flex-wrap items-baseline gap-x-2">
          <dt className="text-soft">{head}</dt>
          <dd className="max-w-full wrap-anywhere">{content}</dd>
        </div>
      ))}
    </dl>
  )
}

/** As Tailwind's `md:` says it. Drawn once, in one place or the other: what is only hidden is found twice by a search in the page. */
const wide = matchMedia('(min-width: 48rem)')
const useIsWide = (): boolean =>
  useSyncExternalStore(
    (changed) => {
      wide.addEventListener('change', changed)
      return () => wide.removeEventListener('change', changed)
    },
    () => wide.matches,
  )

/** Whether all columns fit beside each other. That is known when they were laid out; those that did not fit are tried again in a wider box alone. */
function useRoom(): readonly [box: React.RefObject<HTMLDivElement | null>, isWide: boolean] {
  const box = useRef<HTMLDivElement>(null)
  const [needed, setNeeded] = useState(0)
  const [width, setWidth] = useState(Infinity)
  const isWide = useIsWide() && width >= needed
  useEffect(() => {
    const { current } = box
    if (current === null) return
    const watch = new ResizeObserver(() => setWidth(current.clientWidth))
    watch.observe(current)
    return () => watch.disconnect()
  }, [])
  useLayoutEffect(() => {
    const { scrollWidth = 0, clientWidth = 0 } = box.current ?? {}
    if (!isWide || scrollWidth <= clientWidth) return
    setNeeded(scrollWidth)
    setWidth(clientWidth)
  })
  return [box, isWide]
}

/** Words that may be longer than a cell: one line, and all of them for whoever presses it, by the keyboard, too. Below a cell they are whole. */
export function Long({ text, className = '' }: { readonly text: string; readonly className?: string }) {
  const [isOpen, open] = useState(false)
  const isWide = useIsWide()
  // A line of a cell holds at least this many.
  if (!isWide || text.length <= 24) return <span className={`wrap-anywhere ${className}`}>{text}</span>
  return (
    <button
      type="button"
      aria-expanded={isOpen}
      title={isOpen ? undefined : text}
      className={`block max-w-full rounded text-left ${isOpen ? 'wrap-anywhere whitespace-pre-wrap' : 'truncate'} ${className}`}
      onClick={() => open(!isOpen)}
    >
      {text}
    </button>
  )
}
