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

/** What stands in the place of a secret. */
export const hidden = '********'

/** The reply without what we said in secret: some hosts say a command that they do not take back, login and all. */
export function withoutSecrets(reply: SmtpReply, secrets: readonly string[]): SmtpReply {
  const text = secrets.reduce((all, secret) => (secret === '' ? all : all.replaceAll(secret, hidden)), reply.text)
  return text === reply.text ? reply : { ...reply, text }
}

/** Writes down what was said; of more than there is room for, the last, which tells how it ended. */
export function note(dialogue: Said[], stage: Phase, said: string, answer: SmtpReply | Trouble | Unreached): void {
  if (dialogue.length >= limits.dialogueLinesMax) dialogue.shift()
  const seen = typeof answer === 'string' ? { trouble: answer } : 'trouble' in answer ? answer : { reply: answer }
  dialogue.push({ stage, said, ...seen })
}
