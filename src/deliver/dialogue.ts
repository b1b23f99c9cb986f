// What was said in an attempt, over all of its hosts, exchange by exchange: the message's timeline tells it.
import { limits } from '../config.ts'
import type { Phase, Trouble } from '../domain/attempt.ts'
import type { SmtpReply } from '../mail/smtp-reply.ts'
import type { Unreached } from './connect.ts'

/** One exchange. Never holds a password or content. */
export interface Said {
  readonly stage: Phase
  readonly said: string
  readonly reply?: SmtpReply
  readonly trouble?: Trouble
  readonly cause?: string
}

/** Writes down what was said, up to a limit. */
export function note(dialogue: Said[], stage: Phase, said: string, answer: SmtpReply | Trouble | Unreached): void {
  if (dialogue.length >= limits.dialogueLinesMax) return
  const seen = typeof answer === 'string' ? { trouble: answer } : 'trouble' in answer ? answer : { reply: answer }
  dialogue.push({ stage, said, ...seen })
}
