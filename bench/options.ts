// What the bench is asked to do.
import { parseArgs } from 'node:util'

const rowNames = [
  'rest',
  'large',
  'delivery',
  'submission',
  'webhooks',
  'memory',
  'start',
  'queue',
  'messages',
] as const
/** Left out where no rows are named: they take many minutes. */
const usualRows = rowNames.filter((name) => name !== 'queue' && name !== 'messages')
type RowName = (typeof rowNames)[number]

export interface Options {
  readonly rows: ReadonlySet<string>
  readonly pairs: number
  /** Of each REST run. */
  readonly seconds: number
  readonly rsaSeconds: number
  /** Messages that we deliver in one run. */
  readonly backlog: number
  /** Messages in the list that is read and searched. */
  readonly messages: number
  /** Mails for Postfix, which is slower: a rate needs no more. */
  readonly postfixBacklog: number
  /** From ready to the look at idle memory. */
  readonly settleMs: number
  readonly record: boolean
  readonly smoke: boolean
  /** Says how far it is, on standard error. */
  readonly tell: (words: string) => void
}

export const usage = `npm run bench -- [--rows ${rowNames.join(',')}] [--pairs 5] [--seconds 5] [--backlog 50000] [--messages 1000000] [--record] [--smoke]`

/** The options, or what is wrong with them. */
export function readOptions(args: readonly string[]): Options | string {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        rows: { type: 'string', default: usualRows.join(',') },
        pairs: { type: 'string' },
        seconds: { type: 'string' },
        backlog: { type: 'string' },
        messages: { type: 'string' },
        record: { type: 'boolean', default: false },
        smoke: { type: 'boolean', default: false },
      },
    })
    const { smoke } = values
    const rows = values.rows.split(',')
    const unknown = rows.find((name) => !rowNames.includes(name as RowName))
    if (unknown !== undefined) return `there is no row "${unknown}"`
    const backlog = number('backlog', values.backlog, smoke ? 500 : 50_000, 1_000_000)
    return {
      rows: new Set(rows),
      pairs: number('pairs', values.pairs, smoke ? 1 : 5, 50),
      seconds: number('seconds', values.seconds, smoke ? 1 : 5, 600),
      rsaSeconds: smoke ? 1 : 3,
      backlog,
      messages: number('messages', values.messages, smoke ? 5_000 : 1_000_000, 10_000_000),
      postfixBacklog: Math.min(backlog, smoke ? 100 : 4_000),
      settleMs: smoke ? 500 : 10_000,
      record: values.record,
      smoke,
      tell: (words) => console.error(`bench: ${words}`),
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function number(name: string, text: string | undefined, otherwise: number, most: number): number {
  if (text === undefined) return otherwise
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1 || value > most)
    throw new Error(`--${name} must be a whole number from 1 to ${most}`)
  return value
}
