// A sentence of the service. It quotes commands and names of settings by backquotes, as people do on the command line; here they look like code.
import type { ReactNode } from 'react'

export function Sentence({ of }: { readonly of: string }): ReactNode {
  // What stands between two of them has every odd place; one that is alone stays what it is.
  const parts = of.split(/`([^`\n]+)`/)
  return parts.map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      // A sentence does not change its order.
      // oxlint-disable-next-line react/no-array-index-key
      <code key={index} className="font-mono text-[0.925em] wrap-anywhere">
        {part}
      </code>
    ),
  )
}
