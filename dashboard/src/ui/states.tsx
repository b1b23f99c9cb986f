// What stands where the data would: it comes, there is none, or something is wrong, each with the way on.
import type { UseBaseQueryResult, UseQueryResult } from '@tanstack/react-query'
import { CircleAlert, Inbox, type LucideIcon } from 'lucide-react'
import { useEffect, useState, type ReactNode } from 'react'
import { ApiError, isSignedOut, isSilence } from '../api.ts'
import { Button } from './button.tsx'
import { Sentence } from './sentence.tsx'

/** When somebody wonders whether anything will come at all. */
const longMs = 10_000

export function Loading({ rows = 4 }: { readonly rows?: number }) {
  const [isLong, setLong] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), longMs)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div role="status" className="grid gap-3 p-4 sm:p-5">
      {isLong ? (
        <p className="text-sm text-soft">Still loading: Posthorn, or the way to it, is slow.</p>
      ) : (
        <span className="sr-only">Loading…</span>
      )}
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} aria-hidden className="h-4 animate-pulse rounded bg-sunken last:w-2/3" />
      ))}
    </div>
  )
}

export function Empty({
  icon: Icon = Inbox,
  title,
  children,
}: {
  readonly icon?: LucideIcon
  readonly title: string
  readonly children?: ReactNode
}) {
  return (
    <div className="grid justify-items-center gap-2 px-6 py-12 text-center">
      <Icon aria-hidden className="size-7 text-soft" strokeWidth={1.5} />
      <p className="font-medium">{title}</p>
      {children !== undefined && <div className="max-w-md text-sm text-soft">{children}</div>}
    </div>
  )
}

/** The service said so, and would say it again: the role may not, there is no such thing, or the address names none. */
const isSettled = (error: Error): boolean =>
  error instanceof ApiError && error.code !== undefined && [400, 403, 404].includes(error.status)

export function Failed({ error, again }: { readonly error: Error; readonly again?: () => void }) {
  const requestId = error instanceof ApiError ? error.requestId : undefined
  return (
    <div role="alert" className="grid justify-items-center gap-2 px-6 py-12 text-center">
      <CircleAlert aria-hidden className="size-7 text-bad" strokeWidth={1.5} />
      <p className="max-w-md">
        <Sentence of={error.message} />
      </p>
      {requestId !== undefined && <p className="font-mono text-xs text-soft">Request {requestId}</p>}
      {again !== undefined && !isSettled(error) && <Button onClick={again}>Try again</Button>}
    </div>
  )
}

/** What is shown could not be read again: it may be old. That nobody answers stands above the whole page (client.ts). */
export function Outdated({ query: { isRefetchError, error } }: { readonly query: UseBaseQueryResult }) {
  if (!isRefetchError || error === null || isSilence(error) || isSignedOut(error)) return null
  return (
    <p role="status" className="m-2 rounded-lg bg-warn-wash px-3 py-2 text-sm text-warn">
      What stands here may be old; when it was read again, the answer was: <Sentence of={error.message} />
    </p>
  )
}

/** The three of them around the data of a query. */
export function Answered<Data>({
  query,
  rows,
  children,
}: {
  readonly query: UseQueryResult<Data>
  readonly rows?: number
  readonly children: (data: Data) => ReactNode
}) {
  if (query.data !== undefined)
    return (
      <>
        <Outdated query={query} />
        {children(query.data)}
      </>
    )
  if (query.isError) return <Failed error={query.error} again={() => void query.refetch()} />
  return <Loading {...(rows !== undefined && { rows })} />
}
