// What is typed to find something: searches that look while one types, and those that look when they are asked to.
import { useRouter } from '@tanstack/react-router'
import { ListFilter, Search } from 'lucide-react'
import { useEffect, useId, useState, type ReactNode, type RefObject } from 'react'
import { worded } from './filters.ts'
import { Button } from './ui/button.tsx'
import { TextField } from './ui/field.tsx'

/**
 * The words of a search that looks while one types. They stand in the page's address, and come back from there when a link or the way back has
 * changed it; but an address of a letter ago that arrives late takes back nothing that was typed since.
 */
export function useTyped(
  name: string,
  inAddress = '',
  write: (text: string) => void,
): readonly [text: string, type: (text: string) => void] {
  const router = useRouter()
  const [text, setText] = useState(inAddress)
  useEffect(() => {
    const newest = router.latestLocation.search as Readonly<Record<string, unknown>>
    if (worded(newest[name] ?? '') === inAddress) setText(inAddress)
  }, [router, name, inAddress])
  const type = (to: string) => {
    setText(to)
    write(to)
  }
  return [text, type]
}

/** The words of a search that looks when it is asked to. Going back, or to all that there is, changes what is looked for, too. */
export function useSought(inAddress = ''): readonly [text: string, type: (text: string) => void] {
  const [text, type] = useState(inAddress)
  useEffect(() => type(inAddress), [inAddress])
  return [text, type]
}

/** The field of such a search in its form, named `text`, with the button that asks. `field`: of `useSearchField`. */
export function SearchLine({
  field,
  text,
  type,
  placeholder,
}: {
  readonly field: RefObject<HTMLInputElement | null>
  readonly text: string
  readonly type: (text: string) => void
  readonly placeholder: string
}) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] items-end gap-3">
      <TextField
        ref={field}
        label="Search"
        name="text"
        type="search"
        placeholder={placeholder}
        value={text}
        onChange={(event) => type(event.target.value)}
      />
      <Button type="submit" icon={<Search aria-hidden className="size-4" />}>
        Search
      </Button>
    </div>
  )
}

/**
 * What a list is narrowed by, beside each other. On a phone it would fill the screen before the first row, so there a button opens it; where some of
 * it is set it is open, because a list that is shorter than it should be says why.
 */
export function Filters({
  set,
  className,
  children,
}: {
  /** How many of them narrow the list now. */
  readonly set: number
  readonly className: string
  readonly children: ReactNode
}) {
  const [chosen, choose] = useState<boolean>()
  const isOpen = chosen ?? set > 0
  const id = useId()
  return (
    <>
      <Button
        className="justify-self-start sm:hidden"
        icon={<ListFilter aria-hidden className="size-4" />}
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => choose(!isOpen)}
      >
        {set === 0 ? 'Filters' : `Filters (${set})`}
      </Button>
      <div id={id} className={`${isOpen ? 'grid' : 'hidden'} items-start gap-3 sm:grid ${className}`}>
        {children}
      </div>
    </>
  )
}

/** How many members of a filter are set, but for those that other fields say. */
export const setIn = (filter: object, ...said: readonly string[]): number =>
  Object.keys(filter).filter((name) => !said.includes(name)).length
