// Pages of a list, one after the other, as far as somebody wants to read.
import { useInfiniteQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { get, withQuery } from './api.ts'
import { useIntervalOf } from './live.ts'
import type { PageOf } from './shapes.ts'
import { Button } from './ui/button.tsx'
import { Failed, Loading } from './ui/states.tsx'
import { Table, type Column } from './ui/table.tsx'

export function PagedTable<Item>({
  name,
  path,
  query = {},
  label,
  columns,
  keyOf,
  empty,
  refreshMs,
}: {
  /** Of the data, for reading it again after a change. */
  readonly name: string
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | undefined>>
  readonly label: string
  readonly columns: readonly Column<Item>[]
  readonly keyOf: (item: Item) => string
  readonly empty: ReactNode
  readonly refreshMs?: number
}) {
  const interval = useIntervalOf(name)
  const pages = useInfiniteQuery({
    queryKey: [name, query],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => get<PageOf<Item>>(withQuery(path, { ...query, cursor: pageParam }), signal),
    getNextPageParam: ({ next }) => next,
    // Reading ten pages again every few seconds helps nobody: only the first lives.
    refetchInterval: ({ state }) =>
      state.data !== undefined && state.data.pages.length > 1 ? false : refreshMs !== undefined && interval(refreshMs),
  })
  if (pages.isError && pages.data === undefined)
    return <Failed error={pages.error} again={() => void pages.refetch()} />
  if (pages.data === undefined) return <Loading rows={6} />
  const items = pages.data.pages.flatMap((page) => page.items)
  const more = pages.hasNextPage && (
    <div className="flex justify-center border-t border-line p-3">
      <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
        {items.length === 0 ? 'Look further back' : 'Show more'}
      </Button>
    </div>
  )
  if (items.length === 0)
    return (
      <>
        {empty}
        {more}
      </>
    )
  return (
    <>
      <Table label={label} columns={columns} rows={items} keyOf={keyOf} />
      {more}
    </>
  )
}
