// The frame of the pages before the sign-in.
import { useEffect, type ReactNode } from 'react'
import { ThemeButton } from '../theme.tsx'

export function Outside({
  title,
  about,
  children,
}: {
  readonly title: string
  readonly about?: ReactNode
  readonly children: ReactNode
}) {
  useEffect(() => {
    document.title = `${title} · Posthorn`
  }, [title])
  return (
    <main className="grid min-h-dvh grid-rows-[1fr_auto] justify-items-center px-4">
      <div className="grid w-full max-w-sm content-center gap-6 py-10">
        <div className="grid gap-3">
          <img src="/posthorn.svg" alt="Posthorn" className="size-9" />
          <h1 className="text-2xl font-semibold">{title}</h1>
          {about !== undefined && <p className="text-soft">{about}</p>}
        </div>
        {children}
      </div>
      <footer className="flex items-center gap-3 pb-4 text-sm text-soft">
        <a href="/docs" className="underline">
          API reference
        </a>
        <ThemeButton />
      </footer>
    </main>
  )
}
