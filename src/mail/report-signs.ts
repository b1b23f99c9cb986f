// What a mail without the parts of a report tells of itself, by its header and the beginning of its words: whether a mail system wrote it about a mail that
// failed, or a program in somebody's absence.
import { addressSpecs } from './address-list.ts'
import { decodeWords } from './mime-field.ts'
import { fieldValue, type MimeEntity } from './mime-entity.ts'

/** RFC 3834 5, and what vacation programs put there before it. Exim calls its bounces so, too. */
export function isAutomaticReply(message: MimeEntity): boolean {
  const subject = subjectOf(message).slice(0, 500).toLowerCase()
  if (fieldValue(message, 'x-failed-recipients') !== undefined) return false
  if (daemons.test(senderOf(message)) && bounceSubject.test(subject)) return false
  if (/^auto-replied\b/i.test(fieldValue(message, 'auto-submitted') ?? '')) return true
  if (replyFields.some((name) => fieldValue(message, name) !== undefined)) return true
  return /^auto_reply\b/i.test(fieldValue(message, 'precedence') ?? '') || replySubject.test(subject)
}

const replyFields = ['x-autoreply', 'x-autorespond', 'x-autoresponder', 'x-vacation']
const replySubject =
  /^(?:re: ?|aw: ?){0,3}(?:auto(?:matic|mated)?[- ]?(?:reply|response|antwort)|auto: |automati\S{0,6} (?:antwort|antwoord|svar|vastaus|válasz|odpověď)|autosvar|odpowiedź automatyczna|out of (?:the )?office|away from|vacation|on holiday|abwesen|r[eé]ponse automatique|risposta automatica|respuesta autom|resposta autom|otomatik yanıt|автоматический ответ|自动(?:答复|回复)|自動(?:回覆|回复|応答|返信))/

function senderOf(message: MimeEntity): string {
  return `${fieldValue(message, 'from') ?? ''} ${fieldValue(message, 'sender') ?? ''}`.slice(0, 1_000).toLowerCase()
}

export function authorOf(message: MimeEntity): string | undefined {
  const specs = addressSpecs((fieldValue(message, 'from') ?? '').slice(0, 1_000))
  return specs?.length === 1 ? specs[0]?.toLowerCase() : undefined
}

export function subjectOf(message: MimeEntity): string {
  return decodeWords((fieldValue(message, 'subject') ?? '').slice(0, 2_000))
}

/** The one recipient that Exim names in a field. */
export function failedRecipients(message: MimeEntity): string | undefined {
  const text = fieldValue(message, 'x-failed-recipients')
  return text === undefined || text.includes(',') ? undefined : text.slice(0, 320)
}

const daemons = /mailer-daemon|mail-daemon|\bmailerdaemon\b|\bpostmaster\b|mail delivery (?:sub)?(?:system|service)|mail (?:administrator|router|system)|delivery (?:sub)?system|\bmajordomo-owner\b|bounce(?:s|d)?[-_.@]|mdaemon|\bmailbox daemon\b|system administrator/ // prettier-ignore
const bounceSubject = /undeliver|not deliver|non[- ]?deliver|could ?n[o']t (?:be )?(?:sen[dt]|deliver)|returned? (?:mail|message|to sender|e-?mail)|(?:delivery|mail|message|e-?mail)(?: (?:delivery|status|system))?(?: notification)? ?[:(]? ?(?:fail|error|problem|delay|warning|return|bounce|rejected|was not)|failure (?:notice|notification|delivery)|fail(?:ed|ure) (?:to deliver|mail|delivery)|delivery (?:status|report|failure|unsuccessful|incomplete|delayed)|warning: (?:could not send|message)|unzustellbar|nicht zustellbar|mail non livr|non remis|delayed mail|undelivered|unknown (?:user|recipient|address)|user unknown|bounced? (?:mail|message|e-?mail)|nicht zugestellt|no entregad|message status|rejected mail|error sending/ // prettier-ignore
const bounceOpening = /this is the qmail-send program|this message was created automatically by (?:the )?mail|could ?n[o']t be delivered|can(?:no|')t be delivered|could not deliver|unable to deliver|was not delivered|undeliver(?:able|ed)|delivery (?:has )?failed|did not reach the following|following (?:address|recipient|message|user)|failed to deliver|permanent (?:fatal )?error|returned to sender|not able to deliver|problems? delivering|(?:has|have) been (?:returned|delayed|bounced)|delivery error|transcript of session|not delivered to|mail delivery/ // prettier-ignore

/** Two signs of three: who writes, what the subject says, what the text says. A field that only bounces have is enough. */
export function looksLikeBounce(message: MimeEntity, notice: string): boolean {
  if (fieldValue(message, 'x-failed-recipients') !== undefined) return true
  const nullPath = /^<\s*>$/.test(fieldValue(message, 'return-path') ?? '')
  const generated = /^auto-generated\b/i.test(fieldValue(message, 'auto-submitted') ?? '')
  const signs = [
    daemons.test(senderOf(message)) || nullPath || generated,
    bounceSubject.test(subjectOf(message).slice(0, 500).toLowerCase()),
    bounceOpening.test(notice.slice(0, 4_000).replace(/\s+/g, ' ').toLowerCase()),
  ]
  return signs.filter(Boolean).length >= 2
}
