// Values of options, read strictly: what is none is wrong usage.
import { InvalidArgumentError } from 'commander'

export function positive(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a number above 0.')
  return Number(text)
}

/** With its zone: a bare number would be a year of its own making, and a time without one another at each machine. */
export function instant(text: string): Date {
  const time = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/.test(text)
    ? new Date(text)
    : undefined
  if (time === undefined || Number.isNaN(time.getTime()))
    throw new InvalidArgumentError('It must be a time with its zone, such as 2026-11-01T03:00:00Z.')
  return time
}
