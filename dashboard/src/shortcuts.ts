// Keys for those who look all day: `/` searches, `j` and `k` go through a list, `g` and a letter goes to a page, `?` shows them all. They never fire
// where somebody writes, in a dialog or a menu, or together with Ctrl, Alt or Meta; and they can be switched off (WCAG 2.1.4).
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState, type RefObject } from 'react'

export const leaps = {
  o: ['/', 'Overview'],
  m: ['/messages', 'Messages'],
  r: ['/refused', 'Refused'],
  s: ['/suppressions', 'Suppressions'],
  i: ['/sandbox', 'Sandbox inbox'],
  d: ['/domains', 'Domains'],
  b: ['/mailboxes', 'Mailboxes'],
  k: ['/settings', 'API & SMTP'],
  w: ['/webhook', 'Webhook'],
  e: ['/workspace', 'General'],
  p: ['/members', 'Members'],
  a: ['/audit', 'Audit log'],
} as const satisfies Readonly<Record<string, readonly [to: string, name: string]>>

/** How long `g` waits for its letter. */
const leapMs = 1_500
const stored = 'shortcuts'

export function areOn(): boolean {
  try {
    return localStorage.getItem(stored) !== 'off'
  } catch {
    return true
  }
}
export function switchTo(on: boolean): void {
  try {
    if (on) localStorage.removeItem(stored)
    else localStorage.setItem(stored, 'off')
  } catch {
    // It then holds until the page is left.
  }
}

/** `/` was pressed where there is no field for it: the list of messages has one. */
let searchIsWanted = false

/** The field that `/` goes to, for the page that has it, and none of its parts: the heading takes the focus before the page does. */
export function useSearchField(): RefObject<HTMLInputElement | null> {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (!searchIsWanted) return
    searchIsWanted = false
    field.current?.focus()
  }, [])
  return field
}

/** Listens for the whole page; whether the list of all keys is wanted. */
export function useShortcuts(): readonly [helping: boolean, help: (open: boolean) => void] {
  const navigate = useNavigate()
  const [helping, help] = useState(false)
  useEffect(() => {
    let leapUntil = 0
    const search = () => {
      const fields = [...document.querySelectorAll<HTMLInputElement>('main input[type=search]')]
      // One among closed filters is none that could be written in.
      const field = fields.find((each) => each.checkVisibility())
      if (field !== undefined) return field.select()
      searchIsWanted = true
      void navigate({ to: '/messages' })
    }
    const acts: Readonly<Record<string, () => void>> = {
      '/': search,
      j: () => stepInList(1),
      k: () => stepInList(-1),
      '?': () => help(true),
    }
    const hear = (event: KeyboardEvent) => {
      if (!isFree(event) || (!areOn() && event.key !== '?')) return
      const isLeap = event.timeStamp < leapUntil
      leapUntil = !isLeap && event.key === 'g' ? event.timeStamp + leapMs : 0
      if (isLeap) {
        if (!(event.key in leaps)) return
        event.preventDefault()
        void navigate({ to: leaps[event.key as keyof typeof leaps][0] })
        return
      }
      const act = acts[event.key]
      if (act === undefined) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', hear)
    return () => removeEventListener('keydown', hear)
  }, [navigate])
  return [helping, help]
}

function isFree({ defaultPrevented, ctrlKey, metaKey, altKey, isComposing, target }: KeyboardEvent): boolean {
  if (defaultPrevented || ctrlKey || metaKey || altKey || isComposing) return false
  if (target instanceof HTMLElement && (target.isContentEditable || target.closest(writing) !== null)) return false
  return document.querySelector('[role=dialog], [role=alertdialog], [role=menu]') === null
}
const writing = 'input, textarea, select, [role=slider], [role=textbox], [role=combobox]'

/** The focus goes to the next row's first link or button; from nowhere, to the first row's. */
function stepInList(by: 1 | -1): void {
  const rows = [...document.querySelectorAll('main tbody tr')]
  const steps = rows.flatMap((row) => row.querySelector<HTMLElement>('a[href], button:not(:disabled)') ?? [])
  const now = steps.findIndex((step) => step.closest('tr')?.contains(document.activeElement) === true)
  const next = now < 0 ? (by > 0 ? steps[0] : steps.at(-1)) : steps[now + by]
  next?.focus()
  next?.scrollIntoView({ block: 'nearest' })
}
