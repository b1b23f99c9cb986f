// What a list is narrowed to, as the page's address says it: somebody may have typed it. It stands there so that a reload, the way back and a link that
// somebody is given show the same.
import { addressIn, isId, metadataIn } from './typed.ts'

export interface MessageFilter {
  readonly status?: string
  readonly deliveryStatus?: string
  readonly text?: string
  readonly recipient?: string
  readonly mailboxId?: string
  /** `name=value`, or a value under any name. */
  readonly metadata?: string
  /** Days as the browser counts them, both included; or instants, the second not included. */
  readonly from?: string
  readonly to?: string
}

const isText = (value: string): boolean => value !== ''
const isAddress = (value: string): boolean => addressIn(value) !== undefined
/** One on which there may have been a message: no year that is still being typed. */
export const isDay = (value: string): boolean =>
  /^(?:19[7-9]|2\d\d)\d-\d\d-\d\d$/.test(value) && !Number.isNaN(Date.parse(value))
/** As the service tells them: what a chart counts begins between two days of the browser. */
export const isInstant = (value: string): boolean =>
  /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) && isDay(value.slice(0, 10)) && !Number.isNaN(Date.parse(value))
const isTime = (value: string): boolean => isDay(value) || isInstant(value)
export const readFilter = readerOf<MessageFilter>({
  status: isText,
  deliveryStatus: isText,
  text: isText,
  recipient: isAddress,
  mailboxId: isId,
  metadata: (value) => metadataIn(value) !== undefined,
  from: isTime,
  to: isTime,
})

/** Which mails of the sandbox are looked for. */
export interface SandboxFilter {
  readonly text?: string
  readonly recipient?: string
  readonly messageId?: string
}
export const readSandboxFilter = readerOf<SandboxFilter>({ text: isText, recipient: isText, messageId: isId })

/** What was refused; days as the browser counts them, both included. */
export interface RefusedFilter {
  readonly code?: string
  readonly source?: string
  readonly from?: string
  readonly to?: string
}
export const readRefusedFilter = readerOf<RefusedFilter>({ code: isText, source: isText, from: isDay, to: isDay })

export interface SuppressionFilter {
  readonly prefix?: string
  readonly reason?: string
}
export const readSuppressionFilter = readerOf<SuppressionFilter>({ prefix: isText, reason: isText })

/** Which events of the webhook's log. */
export interface WebhookFilter {
  readonly state?: string
  readonly type?: string
  readonly messageId?: string
}
export const readWebhookFilter = readerOf<WebhookFilter>({ state: isText, type: isText, messageId: isId })

/** Of operators: which workspaces. */
export interface WorkspaceFilter {
  readonly text?: string
}
export const readWorkspaceFilter = readerOf<WorkspaceFilter>({ text: isText })

/** `?text=4711` comes as a number. */
export const worded = (value: unknown) =>
  typeof value === 'number' || typeof value === 'boolean' ? String(value) : value

/** Of an address, what means something; the rest is as if it were not there. */
function readerOf<Filter>(members: { readonly [Member in keyof Filter]-?: (value: string) => boolean }) {
  const wanted = Object.entries<(value: string) => boolean>(members)
  return (search: Readonly<Record<string, unknown>>): Filter =>
    Object.fromEntries(
      wanted.flatMap(([name, isRight]): [string, string][] => {
        const value = worded(search[name])
        return typeof value === 'string' && isRight(value) ? [[name, value]] : []
      }),
    ) as Filter
}

/** A filter with some of it changed; what is empty is no part of it. */
export const narrowed = <Filter extends object>(filter: Filter, changes: Filter): Filter =>
  Object.fromEntries(
    Object.entries({ ...filter, ...changes }).filter(([, value]) => value !== undefined && value !== ''),
  ) as Filter

/** The beginning of a day at the browser, which is not midnight where summer time begins then: the next day is counted from the calendar, not from there. */
export function midnight(day: string, daysLater: number): string {
  const [year = 0, month = 1, date = 1] = day.split('-').map(Number)
  return new Date(year, month - 1, date + daysLater).toISOString()
}
