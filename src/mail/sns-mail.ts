// Mail from Amazon SNS to an address that is subscribed to a topic: the notification of SES as JSON, and a foot below it.
import { limits } from '../config.ts'
import { readSesNotification, type SesNotification } from './ses-notification.ts'

/** In the text of the mail; undefined where it is no such notification, or was cut. */
export function notificationIn(notice: string): SesNotification | undefined {
  const start = /^\s{0,16}\{/.exec(notice)
  if (start === null || !/"(?:notification|event)Type\\?"/.test(notice.slice(0, 4_000))) return undefined
  // Old relays break a long line with `!` and a line end.
  const text = notice.slice(0, limits.reportTextBytesMax).replace(/!(?:\r\n|\r|\n)[ \t]/g, '')
  try {
    const value: unknown = JSON.parse(jsonAtStart(text))
    const inside = (value as { Message?: unknown } | null)?.Message
    return readSesNotification(typeof inside === 'string' ? JSON.parse(inside) : value)
  } catch {
    // Cut, or not JSON after all: then it is no notification.
    return undefined
  }
}

/** Until the brace that closes the first one, strings passed over. */
function jsonAtStart(text: string): string {
  let depth = 0
  let quoted = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (quoted) {
      if (character === '\\') at++
      else if (character === '"') quoted = false
    } else if (character === '"') quoted = true
    else if (character === '{') depth++
    else if (character === '}' && --depth === 0) return text.slice(0, at + 1)
  }
  return text
}
