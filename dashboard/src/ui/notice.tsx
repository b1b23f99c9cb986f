// What somebody must know before all else on a page, above it: an icon, a heading, and what to do.
import type { LucideIcon } from 'lucide-react'
import type { ReactNode } from 'react'

const looks = {
  bad: ['border-bad/40 bg-bad-wash', 'text-bad'],
  warn: ['border-warn/40 bg-warn-wash', 'text-warn'],
} as const

export function Notice({
  label,
  title,
  icon: Icon,
  tone = 'bad',
  children,
}: {
  /** What it is called; left out, as its heading. */
  readonly label?: string
  readonly title: string
  readonly icon: LucideIcon
  readonly tone?: keyof typeof looks
  readonly children: ReactNode
}) {
  const [box, words] = looks[tone]
  return (
    <section aria-label={label ?? title} className={`flex gap-3 rounded-xl border p-4 sm:p-5 ${box}`}>
      <Icon aria-hidden className={`mt-0.5 size-5 shrink-0 ${words}`} />
      <div className="grid max-w-2xl gap-2 text-sm">
        <h2 className={`text-base font-semibold ${words}`}>{title}</h2>
        {children}
      </div>
    </section>
  )
}
