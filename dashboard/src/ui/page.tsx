// The frame of every page: one heading, what it is about in a sentence, and the one thing to do here.
import { useEffect, useRef, type ReactNode } from 'react'

/** The first page begins where the browser begins. */
let hasArrived = false

export function Page({
  title,
  about,
  actions,
  children,
}: {
  readonly title: string
  readonly about?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}) {
  useEffect(() => {
    document.title = `${title} · Posthorn`
  }, [title])
  const heading = useRef<HTMLHeadingElement>(null)
  // Who came by the keyboard goes on from here: the link that led here is behind, or gone.
  useEffect(() => {
    if (hasArrived) heading.current?.focus({ preventScroll: true })
    hasArrived = true
  }, [])
  return (
    <div className="mx-auto grid w-full max-w-6xl grid-cols-[minmax(0,1fr)] gap-6 px-4 py-6 print:block print:*:mb-6 sm:px-8 sm:py-8">
      <header className="flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
        <div className="grid min-w-0 gap-1">
          <h1
            ref={heading}
            tabIndex={-1}
            dir="auto"
            title={title}
            className="outline-none line-clamp-3 text-left text-2xl font-semibold break-words"
          >
            {title}
          </h1>
          {about !== undefined && <div className="max-w-2xl break-words text-soft">{about}</div>}
        </div>
        {actions !== undefined && <div className="flex flex-wrap gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

/** A part of a page. */
export function Card({
  title,
  about,
  actions,
  children,
  flush = false,
}: {
  readonly title?: string
  readonly about?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
  /** The content reaches the edges: tables. */
  readonly flush?: boolean
}) {
  return (
    <section className="min-w-0 rounded-xl border border-line bg-card" aria-label={title}>
      {title !== undefined && (
        <header
          className={`flex flex-wrap items-center justify-between gap-3 px-4 pt-4 sm:px-5 ${flush ? 'pb-3' : ''}`}
        >
          <div className="grid gap-0.5">
            <h2 className="text-lg font-semibold">{title}</h2>
            {about !== undefined && <p className="text-sm text-soft">{about}</p>}
          </div>
          {actions !== undefined && <div className="flex flex-wrap gap-2">{actions}</div>}
        </header>
      )}
      <div className={flush ? '' : 'p-4 sm:p-5'}>{children}</div>
    </section>
  )
}

/** Names and values, one below the other. However long a name is (metadata has any), its value keeps the larger part of the line. */
export function Facts({ rows }: { readonly rows: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className="grid grid-cols-[fit-content(40%)_minmax(0,1fr)] items-baseline gap-x-4 gap-y-2 text-sm">
      {rows.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="min-w-20 wrap-anywhere text-soft">{name}</dt>
          <dd className="min-w-0 break-words">{value}</dd>
        </div>
      ))}
    </dl>
  )
}
