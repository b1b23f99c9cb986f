// Pages of a list, one after the other, as far as somebody wants to read.
import { useInfiniteQuery } from '@tanstack/react-query'
import { useEffect, type ReactNode } from 'react'
import { get, withQuery } from './api.ts'
import { isLong, useIntervalOf } from './live.ts'
import { Button } from './ui/button.tsx'
import { FormMistake } from './ui/field.tsx'
import { Failed, Loading, Outdated } from './ui/states.tsx'
import { Table, type Column } from './ui/table.tsx'

type Answer<Item> = Readonly<Record<string, readonly Item[] | string>> & {
  readonly next?: string
  readonly lookedBackTo?: string
}

export function PagedTable<Item>({
  name,
  path,
  query = {},
  label,
  columns,
  keyOf,
  empty,
  refreshMs,
  member = 'items',
  cursor = 'cursor',
  looking,
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
  /** What the answer calls its rows, and the question where the page before ended: the log of webhooks has words of its own. */
  readonly member?: string
  readonly cursor?: string
  /** Said while it looks further back, by lists that tell up to when they have looked. */
  readonly looking?: (lookedBackTo: string) => ReactNode
}) {
  const interval = useIntervalOf(name)
  const pages = useInfiniteQuery({
    queryKey: [name, query],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam, signal }) => {
      const answer = await get<Answer<Item>>(withQuery(path, { ...query, [cursor]: pageParam }), signal)
      return { items: answer[member] as readonly Item[], next: answer.next, lookedBackTo: answer.lookedBackTo }
    },
    getNextPageParam: ({ next }) => next,
    // Reading ten pages again every few seconds helps nobody: only the first lives.
    refetchInterval: ({ state }) => !isLong(state.data) && refreshMs !== undefined && interval(refreshMs),
    refetchOnWindowFocus: ({ state }) => !isLong(state.data),
    refetchOnReconnect: ({ state }) => !isLong(state.data),
  })
  // A page of a search may be empty and not the last (decision 0027): then the next is asked for until something is found.
  const last = pages.data?.pages.at(-1)
  const isLooking = pages.hasNextPage && last?.items.length === 0
  const { fetchNextPage, isFetching, isError } = pages
  useEffect(() => {
    if (isLooking && !isFetching && !isError) void fetchNextPage()
  }, [isLooking, isFetching, isError, fetchNextPage])
  if (pages.isError && pages.data === undefined)
    return <Failed error={pages.error} again={() => void pages.refetch()} />
  if (pages.data === undefined) return <Loading rows={6} />
  const items = pages.data.pages.flatMap((page) => page.items)
  const more = pages.hasNextPage && (
    <div className="grid justify-items-center gap-2 border-t border-line p-3">
      {pages.isFetchNextPageError && <FormMistake error={pages.error} />}
      <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
        {isLooking ? 'Looking further back' : 'Show more'}
      </Button>
      {isLooking && last?.lookedBackTo !== undefined && looking?.(last.lookedBackTo)}
    </div>
  )
  if (items.length === 0)
    return (
      <>
        <Outdated query={pages} />
        {!isLooking && empty}
        {more}
      </>
    )
  return (
    <>
      <Outdated query={pages} />
      <Table label={label} columns={columns} rows={items} keyOf={keyOf} />
      {more}
      {refreshMs !== undefined && isLong(pages.data) && (
        <div className="flex flex-wrap items-center justify-center gap-x-3 border-t border-line p-2 text-sm text-soft">
          <span>A list of several pages does not follow by itself.</span>
          <Button look="quiet" busy={pages.isRefetching} onClick={() => void pages.refetch()}>
            Read it again
          </Button>
        </div>
      )}
    </>
  )
}
