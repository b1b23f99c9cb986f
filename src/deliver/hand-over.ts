// Hands mails to one SMTP server of our own installation: what the sandbox reports, to the bounce mailbox. Tried a few times, held in
// memory alone: it plays a stranger's part, and nothing that a customer was promised goes this way.
import { limits } from '../config.ts'
import type { Log } from '../base/log.ts'
import { lifecycle, type Service } from '../base/service.ts'
import { wordsOf } from '../base/trouble.ts'
import { Conversation, openConversation, type Manner } from './conversation.ts'
import type { Target } from './route.ts'

export interface OwnMail {
  /** '' for the null sender. */
  readonly from: string
  readonly to: string
  readonly content: Buffer
}

export interface HandOverSettings extends Manner {
  readonly host: string
  readonly port: number
  /** How long the first try waits; each further one waits twice as long. */
  readonly firstDelayMs: number
  readonly log: Log
}

export interface HandOver {
  /** Returns at once. What is too much, or comes while it is stopped, is let go. */
  give(mail: OwnMail): void
  readonly service: Service
}

export function makeHandOver(settings: HandOverSettings): HandOver {
  const waiting = new Set<NodeJS.Timeout>()
  const under = new Set<Promise<void>>()
  let stopping = new AbortController()
  let running = false
  const target = ownServer(settings.host, settings.port)

  const later = (mail: OwnMail, tries: number, delayMs: number): void => {
    const timer = setTimeout(() => {
      waiting.delete(timer)
      const work = attempt(mail, tries, delayMs).finally(() => under.delete(work))
      under.add(work)
    }, delayMs)
    waiting.add(timer)
  }

  const attempt = async (mail: OwnMail, tries: number, delayMs: number): Promise<void> => {
    // A lack of our own (no file for one more connection) is told by an error, and nobody else hears of it.
    const why = await handOver(target, settings, mail, stopping.signal).catch((error: unknown): WhyNot => ({
      words: wordsOf(error),
      again: true,
    }))
    if (why === undefined || !running) return
    if (tries < limits.simulatorReportTries && why.again) later(mail, tries + 1, delayMs * 2)
    else settings.log.fault('hand over', new Error(why.words), { port: settings.port })
  }

  const service = lifecycle(
    'hand over',
    () => {
      stopping = new AbortController()
      running = true
      return Promise.resolve()
    },
    async () => {
      running = false
      for (const timer of waiting) clearTimeout(timer)
      waiting.clear()
      stopping.abort()
      await Promise.all(under)
    },
  )
  return {
    give: (mail) => {
      if (running && waiting.size + under.size < limits.simulatorReportsMax) later(mail, 1, settings.firstDelayMs)
    },
    service,
  }
}

interface WhyNot {
  readonly words: string
  /** It may go better later. */
  readonly again: boolean
}

/** One conversation for one mail; undefined when it was taken. There is no record to arm: a second copy does no harm. */
export async function handOver(
  target: Target,
  manner: Manner,
  mail: OwnMail,
  signal?: AbortSignal,
): Promise<WhyNot | undefined> {
  const opened = await openConversation(target, manner, [], signal)
  if (!(opened instanceof Conversation))
    return { words: opened.reply?.text ?? opened.trouble ?? 'no connection', again: true }
  const at = mail.to.lastIndexOf('@')
  const end = await opened.send(
    {
      recipient: {
        text: mail.to,
        local: mail.to.slice(0, at),
        domain: mail.to.slice(at + 1),
        key: mail.to.toLowerCase(),
        needsSmtputf8: false,
      },
      envelopeFrom: mail.from,
      content: mail.content,
      size: mail.content.length,
      needs8bit: true,
      needsSmtputf8: false,
      arm: () => Promise.resolve('armed'),
      deadline: () => Infinity,
      ...(signal !== undefined && { signal }),
    },
    [],
  )
  await opened.quit()
  if (end.reply !== undefined && end.reply.code < 300 && end.dotWritten) return undefined
  return {
    words: `${end.phase}: ${end.reply === undefined ? end.trouble : `${end.reply.code} ${end.reply.text}`}`,
    again: end.reply === undefined || end.reply.code < 500,
  }
}

function ownServer(host: string, port: number): Target {
  const key = `own ${host} ${port}`
  return { host, address: host, port, tls: 'clear', verify: false, connectionsMax: 1, key, provider: key }
}
