// Texts to take along: ids, secrets, records, snippets. What was copied says so.
import { Check, Copy as CopyIcon } from 'lucide-react'
import { useEffect, useState } from 'react'
import { IconButton } from './button.tsx'
import { Tabs } from './tabs.tsx'

function useCopied(): readonly [state: 'copied' | 'failed' | undefined, copy: (text: string) => void] {
  const [state, setState] = useState<'copied' | 'failed'>()
  useEffect(() => {
    if (state !== 'copied') return
    const timer = setTimeout(() => setState(undefined), 1_600)
    return () => clearTimeout(timer)
  }, [state])
  return [state, (text) => void write(text).then((done) => setState(done ? 'copied' : 'failed'))]
}

/** Over plain HTTP browsers have no clipboard to write to; there the old way is left. */
async function write(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return writeOldWay(text)
  }
}

function writeOldWay(text: string): boolean {
  let isGiven = false
  const give = (event: ClipboardEvent) => {
    event.preventDefault()
    event.clipboardData?.setData('text/plain', text)
    isGiven = event.clipboardData !== null
  }
  document.addEventListener('copy', give, { once: true })
  try {
    return document.execCommand('copy') && isGiven
  } finally {
    document.removeEventListener('copy', give)
  }
}

export function CopyButton({ text, label = 'Copy' }: { readonly text: string; readonly label?: string }) {
  const [state, copy] = useCopied()
  return (
    <>
      <IconButton label={label} onClick={() => copy(text)}>
        {state === 'copied' ? (
          <Check aria-hidden className="size-4 text-good" />
        ) : (
          <CopyIcon aria-hidden className="size-4" />
        )}
      </IconButton>
      {/* A secret that is shown this once would be gone with the dialog. */}
      <span role="status" className={state === 'failed' ? 'text-xs text-bad' : 'sr-only'}>
        {state === 'copied' ? 'Copied' : state === 'failed' ? 'Not copied: select it and copy it by hand' : ''}
      </span>
    </>
  )
}

/** An id: its end tells it from others, and all of it can be copied. */
export function Id({ id, short = false }: { readonly id: string; readonly short?: boolean }) {
  return (
    <span className="inline-flex max-w-full items-center gap-0.5">
      <code title={id} className="truncate font-mono text-xs text-soft">
        {short ? `…${id.slice(-8)}` : id}
      </code>
      <CopyButton text={id} label="Copy id" />
    </span>
  )
}

/** One line to copy; long ones scroll inside their own box. */
export function CopyLine({ text, secret = false }: { readonly text: string; readonly secret?: boolean }) {
  return (
    <div
      className={`flex items-center gap-1 rounded-lg border pr-1 ${secret ? 'border-warn/50 bg-warn-wash' : 'border-line bg-sunken'}`}
    >
      <code
        tabIndex={0}
        className="min-w-0 flex-1 overflow-x-auto px-3 py-2 font-mono text-sm whitespace-nowrap select-all"
      >
        {text}
      </code>
      <CopyButton text={text} />
    </div>
  )
}

/** The button stands beside the lines: on a phone it would cover the end of the first. */
export function Snippet({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <figure aria-label={label} className="flex items-start rounded-lg border border-line bg-sunken">
      <pre tabIndex={0} className="min-w-0 flex-1 overflow-x-auto p-3 font-mono text-sm leading-relaxed">
        {text}
      </pre>
      <div className="p-1.5">
        <CopyButton text={text} label={`Copy ${label}`} />
      </div>
    </figure>
  )
}

/** The same in several languages, the first of which is shown first. */
export function Snippets<Language extends string>({ texts }: { readonly texts: Readonly<Record<Language, string>> }) {
  const languages = Object.keys(texts) as Language[]
  const [chosen, choose] = useState(languages[0] as Language)
  return (
    <div className="grid gap-2">
      <Tabs label="Language" names={languages} chosen={chosen} choose={choose} />
      <Snippet text={texts[chosen]} label={chosen} />
    </div>
  )
}
