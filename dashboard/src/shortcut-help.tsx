// All keys there are, and the switch for them.
import { Fragment, useState } from 'react'
import { areOn, leaps, switchTo } from './shortcuts.ts'
import { Dialog } from './ui/dialog.tsx'
import { Check } from './ui/field.tsx'

const keys: readonly (readonly [keys: readonly string[], words: string])[] = [
  [['/'], 'Search messages'],
  [['j'], 'Next in the list'],
  [['k'], 'The one before'],
  [['Enter'], 'Open it'],
  ...Object.entries(leaps).map(([key, [, name]]): readonly [string[], string] => [['g', key], name]),
  [['?'], 'This list'],
]

export function ShortcutHelp({ done }: { readonly done: () => void }) {
  const [on, setOn] = useState(areOn)
  return (
    <Dialog title="Keys" description="They do nothing while you write." open onOpenChange={done}>
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] items-center gap-x-4 gap-y-1.5 text-sm">
        {keys.map(([each, words]) => (
          <Fragment key={words}>
            <dt className="flex gap-1">
              {each.map((key) => (
                <kbd
                  key={key}
                  className="min-w-6 rounded border border-line bg-sunken px-1.5 py-0.5 text-center font-mono text-xs"
                >
                  {key}
                </kbd>
              ))}
            </dt>
            <dd>{words}</dd>
          </Fragment>
        ))}
      </dl>
      <Check
        label="Keys are on in this browser"
        checked={on}
        onChange={({ target }) => {
          switchTo(target.checked)
          setOn(target.checked)
        }}
      />
    </Dialog>
  )
}
