// Values of options, read strictly: what is none is wrong usage.
import { InvalidArgumentError } from 'commander'

export function positive(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a number above 0.')
  return Number(text)
}
