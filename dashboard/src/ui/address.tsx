// An address in a column as narrow as a part of it: it is broken where people read a new part, and not in the middle of a word.
import { Fragment } from 'react'

export function Address({ of }: { readonly of: string }) {
  const parts = of.split(/(?=[@.])/)
  return parts.map((part, index) => (
    <Fragment key={index}>
      {index > 0 && <wbr />}
      {part}
    </Fragment>
  ))
}
