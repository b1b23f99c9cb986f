// Which messages are looked for, as the page's address says it: somebody may have typed it.

export interface MessageFilter {
  readonly status?: string
  readonly deliveryStatus?: string
  readonly text?: string
  readonly recipient?: string
  readonly mailboxId?: string
  /** Days as the browser counts them, both included; or instants, the second not included. */
  readonly from?: string
  readonly to?: string
}

const isId = (value: string): boolean => /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(value)
const isText = (value: string): boolean => value !== ''
/** One on which there may have been a message: no year that is still being typed. */
export const isDay = (value: string): boolean =>
  /^(?:19[7-9]|2\d\d)\d-\d\d-\d\d$/.test(value) && !Number.isNaN(Date.parse(value))
/** As the service tells them: what a chart counts begins between two days of the browser. */
export const isInstant = (value: string): boolean =>
  /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) && isDay(value.slice(0, 10)) && !Number.isNaN(Date.parse(value))
const isTime = (value: string): boolean => isDay(value) || isInstant(value)
const members = {
  status: isText,
  deliveryStatus: isText,
  text: isText,
  recipient: isText,
  mailboxId: isId,
  from: isTime,
  to: isTime,
} as const satisfies Record<keyof MessageFilter, (value: string) => boolean>

/** What of it means something; the rest is as if it were not there. */
export function readFilter(search: Readonly<Record<string, unknown>>): MessageFilter {
  return Object.fromEntries(
    Object.entries(members).flatMap(([name, isRight]): [string, string][] => {
      const value = search[name]
      return typeof value === 'string' && isRight(value) ? [[name, value]] : []
    }),
  )
}
