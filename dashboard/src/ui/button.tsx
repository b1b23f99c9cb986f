// Things to press. One primary action a page; what destroys is red and asks before.
import type { ButtonHTMLAttributes, ReactNode } from 'react'
import { LoaderCircle } from 'lucide-react'

/** Each has a border: where the system has its own colours nothing else tells a button from words. */
const looks = {
  primary: 'border-transparent bg-accent text-accent-ink hover:brightness-110',
  plain: 'border-line bg-card text-ink hover:bg-sunken',
  quiet: 'border-transparent text-soft hover:bg-sunken hover:text-ink',
  danger: 'border-bad/40 bg-card text-bad hover:bg-bad-wash',
} as const

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly look?: keyof typeof looks
  readonly icon?: ReactNode
  /** The work is under way: it cannot be pressed twice. */
  readonly busy?: boolean
  /** What it is done to, for those who hear its words and do not see where it stands. */
  readonly of?: string
}

export function buttonClass(look: keyof typeof looks = 'plain'): string {
  return `inline-flex min-h-9 items-center justify-center gap-1.5 rounded-lg border px-3 text-sm font-medium print:hidden transition-[filter,background-color] disabled:cursor-not-allowed disabled:opacity-55 aria-disabled:cursor-not-allowed aria-disabled:opacity-55 ${looks[look]}`
}

export function Button({
  look = 'plain',
  icon,
  busy = false,
  of,
  children,
  className = '',
  onClick,
  ...rest
}: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      // Not `disabled`: that takes the focus away, and whoever has no mouse would be nowhere.
      aria-disabled={busy || undefined}
      aria-busy={busy}
      onClick={busy ? (event) => event.preventDefault() : onClick}
      className={`${buttonClass(look)} ${className}`}
    >
      {busy ? <LoaderCircle aria-hidden className="size-4 animate-spin" /> : icon}
      {children}
      {of !== undefined && <span className="sr-only"> {of}</span>}
    </button>
  )
}

/** An icon that can be pressed; the words are for those who do not see it, and for those who wonder. */
export function IconButton({ label, children, className = '', ...rest }: ButtonProps & { readonly label: string }) {
  return (
    <button
      type="button"
      {...rest}
      aria-label={label}
      title={label}
      className={`inline-flex size-8 shrink-0 items-center justify-center rounded-md text-soft print:hidden hover:bg-sunken hover:text-ink disabled:opacity-50 ${className}`}
    >
      {children}
    </button>
  )
}
