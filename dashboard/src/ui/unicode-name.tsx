// Beside a domain or an address as DNS has it: as people write it. Nothing beside those that are written so anyway.
import { unicodeOf } from '../unicode.ts'

export function UnicodeName({ of }: { readonly of: string }) {
  const text = unicodeOf(of)
  if (text === undefined) return null
  return (
    <span dir="auto" className="block text-left text-xs font-normal wrap-anywhere text-soft">
      {text}
    </span>
  )
}
