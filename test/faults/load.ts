// The callers of a fault campaign: they hand messages in over REST and SMTP, at whichever node answers, and keep the first of the four ledgers,
// what they were told. Who got no answer asks again with the same key, or the same Message-ID, until there is one; a few have no key and
// must live with not knowing.
import { createTransport, type Transporter } from 'nodemailer'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import type { Chance } from '../world/random.ts'
import type { Front } from './stage.ts'

export interface Told {
  /** Whose mail it is. */
  readonly shop: JourneyWorkspace
  readonly recipient: string
  readonly subject: string
  /** The body, or over SMTP the whole mail. */
  readonly text: string
  readonly way: 'rest' | 'rest without a key' | 'smtp'
  /** Every id that an answer named. */
  readonly ids: Set<string>
  /** How often it was asked. */
  asked: number
  /** When it was asked for the last time, on the clock of `Date.now()`. */
  askedAt: number
  /** Unset while nobody knows. */
  answer?: 'accepted' | 'refused'
  /** What the refusal was: with a plan that has room there should be none. */
  words?: string
}

export interface Login {
  readonly username: string
  readonly password: string
}

export interface Load {
  readonly told: readonly Told[]
  /** How many have come to an end. */
  readonly ended: number
  /** So many may be handed in from now on. */
  allow(upTo: number): void
  /** Resolves when so many have come to an end. */
  reached(ended: number): Promise<void>
  readonly over: Promise<void>
}

/** What the receiver does with a mail, how likely, and what must become of it. */
export const kinds = [
  { behaviour: 'ok', weight: 46, becomes: 'sent' },
  { behaviour: 'slow-eod-500ms', weight: 20, becomes: 'sent' },
  { behaviour: 'slow-eod-60ms', weight: 10, becomes: 'sent' },
  { behaviour: 'deferred-1', weight: 7, becomes: 'sent' },
  { behaviour: 'eod-451-1', weight: 8, becomes: 'sent' },
  { behaviour: 'reject-rcpt-550', weight: 2, becomes: 'failed' },
  { behaviour: 'eod-550', weight: 3, becomes: 'failed' },
  { behaviour: 'close-after-dot', weight: 1, becomes: 'delivery_unknown' },
  { behaviour: 'reset-after-dot', weight: 1, becomes: 'delivery_unknown' },
  { behaviour: 'garbage-after-dot', weight: 1, becomes: 'delivery_unknown' },
  { behaviour: 'mixed-after-dot', weight: 1, becomes: 'delivery_unknown' },
] as const
export const destinations = 8

const atOnce = { rest: 8, smtp: 5 }
const answerMs = 7_000

interface LoadTools {
  readonly shop: JourneyWorkspace
  readonly nodes: readonly Front[]
  readonly login: Login
  readonly messages: number
  /** The number of the first one, where it is not the first load of a campaign. */
  readonly first?: number
  readonly chance: Chance
}

export function startLoad({ shop, nodes, login, messages, first = 0, chance }: LoadTools): Load {
  const told = Array.from({ length: messages }, (_, n) => planned(first + n, chance, shop))
  const transports = nodes.map((node) => transportTo(node, login, atOnce.smtp))
  let allowed = 0
  let ended = 0
  let waiting: (() => void)[] = []
  const stir = () => {
    for (const wake of waiting.splice(0)) wake()
  }
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await new Promise<void>((resolve) => waiting.push(resolve))
  }

  const submit = async (one: Told, n: number): Promise<void> => {
    // A node that does not answer is left for the other one.
    for (let at = n; one.answer === undefined; at++) {
      one.asked++
      one.askedAt = Date.now()
      const node = at % nodes.length
      const answer = await (one.way === 'smtp'
        ? overSmtp(transports[node] as Transporter, one, shop.address)
        : overRest(shop, one, n, nodes[node]?.url ?? ''))
      if (answer === 'accepted' || answer.startsWith('refused')) {
        one.answer = answer === 'accepted' ? 'accepted' : 'refused'
        one.words = answer
      } else if (answer === 'unsure' && one.way === 'rest without a key') break
      else await new Promise((resolve) => setTimeout(resolve, 100))
    }
    ended++
    stir()
  }
  const lane = async (isMine: (one: Told) => boolean, state: { next: number }): Promise<void> => {
    for (;;) {
      const n = state.next++
      const one = told[n]
      if (one === undefined) return
      if (!isMine(one)) continue
      await until(() => n < allowed)
      await submit(one, first + n)
    }
  }
  const lanes = (count: number, isMine: (one: Told) => boolean) => {
    const state = { next: 0 }
    return Array.from({ length: count }, () => lane(isMine, state))
  }
  const over = Promise.all([
    ...lanes(atOnce.rest, ({ way }) => way !== 'smtp'),
    ...lanes(atOnce.smtp, ({ way }) => way === 'smtp'),
  ]).then(() => {
    for (const transport of transports) transport.close()
  })
  return {
    told,
    get ended() {
      return ended
    },
    allow: (upTo) => {
      allowed = Math.max(allowed, upTo)
      stir()
    },
    reached: (many) => until(() => ended >= many),
    over,
  }
}

function planned(n: number, chance: Chance, shop: JourneyWorkspace): Told {
  const { behaviour } = chance.weighted(kinds)
  const way = chance.happens(0.3) ? 'smtp' : chance.happens(0.1) ? 'rest without a key' : 'rest'
  const recipient = `${behaviour}+m${n}@d${chance.below(destinations)}.example`
  const subject = `Order ${n}`
  const words = `Order ${n} is on its way.\n${'.dots and = signs\n'.repeat(1 + chance.below(20))}`
  return {
    shop,
    recipient,
    subject,
    text: way === 'smtp' ? mailOf(n, shop.address, recipient, subject, words) : words,
    way,
    ids: new Set(),
    asked: 0,
    askedAt: 0,
  }
}

function mailOf(n: number, from: string, to: string, subject: string, words: string): string {
  const head = [
    `From: The Shop <${from}>`,
    `To: ${to}`,
    `Subject: ${subject}`,
    'Date: Fri, 20 Nov 2026 10:00:00 +0100',
    `Message-ID: <m${n}@client.example>`,
  ]
  return `${head.join('\r\n')}\r\n\r\n${words.replaceAll('\n', '\r\n')}`
}

type Answered = 'accepted' | `refused ${string}` | 'not now' | 'unsure'

async function overRest(shop: JourneyWorkspace, one: Told, n: number, url: string): Promise<Answered> {
  const { recipient, subject, text, way } = one
  try {
    const answer = await fetch(`${url}/api/v1/send`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${shop.key}`,
        'content-type': 'application/json',
        ...(way === 'rest' && { 'idempotency-key': `order-${n}` }),
      },
      body: JSON.stringify(shop.body({ recipient, subject, bodyText: text })),
      signal: AbortSignal.timeout(answerMs),
    })
    const body = (await answer.json()) as { id?: string; code?: string }
    if (answer.status === 202) one.ids.add(body.id ?? '')
    if (answer.status === 202) return 'accepted'
    if (answer.status === 429 && isOverQuota(body.code ?? '')) return `refused 429 ${body.code}`
    // A repeat beside a first request that is still under way is asked to come later; 408: on a rough wire it came too slowly.
    if (answer.status >= 500 || [408, 409, 429].includes(answer.status))
      return answer.status === 503 && way === 'rest without a key' ? 'unsure' : 'not now'
    return `refused ${answer.status} ${body.code}`
  } catch {
    return 'unsure'
  }
}

/** The plan's no, which waiting does not change: in the code of a 429, or the text of a 452. */
export const isOverQuota = (words: string): boolean => /(?:hourly|daily|monthly)_limit_reached/.test(words)

async function overSmtp(transport: Transporter, one: Told, from: string): Promise<Answered> {
  try {
    const { response } = (await transport.sendMail({
      envelope: { from, to: [one.recipient] },
      raw: one.text,
    })) as { response: string }
    for (const id of response.match(/[0-9a-f]{8}-[0-9a-f-]{27}/g) ?? []) one.ids.add(id)
    return 'accepted'
  } catch (error) {
    const { responseCode, message } = error as { responseCode?: number; message: string }
    return responseCode !== undefined && (responseCode >= 500 || isOverQuota(message)) ? `refused ${message}` : 'unsure'
  }
}

/** Over these many connections, which stay open. */
export function transportTo(node: Front, login: Login, maxConnections: number): Transporter {
  return createTransport({
    host: '127.0.0.1',
    port: node.smtpPort,
    requireTLS: true,
    tls: { rejectUnauthorized: false },
    auth: { user: login.username, pass: login.password },
    pool: true,
    maxConnections,
    maxMessages: Infinity,
    connectionTimeout: 3_000,
    greetingTimeout: 4_000,
    socketTimeout: answerMs,
  })
}
