// Our side of an SMTP conversation (RFC 5321), one connection, mail after mail. What this product promises is decided here: nothing but
// the last five octets is written after the arm, they are written only after a sure arm, and whatever the peer does, the answer says
// how far it got and whether the dot was written (delivery-semantics: byte discipline, failure matrix 20 to 36).
import { afterPoll } from '../base/after-poll.ts'
import { limits } from '../config.ts'
import type { Facts, Peer, Phase, Trouble } from '../domain/attempt.ts'
import type { EmailAddress } from '../mail/address.ts'
import type { SmtpReply } from '../mail/smtp-reply.ts'
import { armTrouble, askToArm, type ArmAnswer } from './arm.ts'
import { dial, whenAborted, type Line, type LineTrouble } from './connect.ts'
import { finalDot, wireBlocks, type Content } from './content.ts'
import { hidden, note, withoutSecrets, type Said } from './dialogue.ts'
import { authCommands, extensionsOf, mailCommand, noExtensions, rcptCommand, sevenBitForm } from './extensions.ts'
import { mayBeForReports, takesAsItIs, type Extensions } from './extensions.ts'
import { isBrokenTls } from './outcome.ts'
import type { Login, Target } from './route.ts'
import { wantsTls } from './tls-wanted.ts'

export type SevenBit = Content & { leave?(): void }

export interface Mail extends Content {
  readonly recipient: EmailAddress
  /** Empty for the null sender. */
  readonly envelopeFrom: string
  readonly needs8bit: boolean
  /**
   * The same mail for a host that takes no 8-bit content, signed as it then stands; undefined where there is none. Left out: there is none.
   * Asked for at most once for each connection, before MAIL; `leave` is called when it is of no more use there.
   */
  sevenBit?(): Promise<SevenBit | undefined>
  readonly needsSmtputf8: boolean
  /** What to ask of a server that sends delivery reports (RFC 3461). Left out: nothing. */
  readonly reports?: { readonly envelopeId: string; readonly success: boolean }
  /** Called at most once, when all content but the last CRLF has been written. Nobody reads the content any more: it may be gone from here on. */
  arm(): Promise<ArmAnswer>
  /** Called whenever it gets on: there is a connection, a command was answered, a block was taken. */
  heard?(): void
  /** On the clock of `performance.now()`: from then on the dot must not be written. */
  deadline(): number
  /** Give up, as long as the dot is not written. */
  readonly signal?: AbortSignal
}

/** What one transaction saw. `phase` is `eod` exactly when the dot was written. */
export interface Transaction extends Facts {
  readonly dotWritten: boolean
  /** The arm was asked for, whatever it said: this attempt may not go on elsewhere. */
  readonly armAsked: boolean
  /** It is armed, or may be, and the dot was certainly never written. */
  readonly needsDisarm: boolean
  /** The connection can take another mail. */
  readonly reusable: boolean
}

export interface Manner {
  /** Our name in EHLO. */
  readonly hostname: string
  /** Divides the time limits (tests). */
  readonly timeoutScale: number
}

/** Connects, greets, encrypts and logs in; `heard` is called with each step. Where opportunistic TLS is broken, once more in clear text on a fresh connection. */
export async function openConversation(
  target: Target,
  manner: Manner,
  dialogue: Said[],
  signal?: AbortSignal,
  heard?: () => void,
): Promise<Conversation | Facts> {
  const opened = await open(target, manner, dialogue, signal, heard)
  if (opened instanceof Conversation || target.tls !== 'opportunistic' || !isBrokenTls(opened)) return opened
  return open({ ...target, tls: 'clear' }, manner, dialogue, signal, heard)
}

async function open(
  target: Target,
  manner: Manner,
  dialogue: Said[],
  signal?: AbortSignal,
  heard?: () => void,
): Promise<Conversation | Facts> {
  const line = await dial(target, limits.smtpConnectMs / manner.timeoutScale, signal)
  if ('trouble' in line) {
    note(dialogue, 'connect', `connect ${target.address} ${target.port}`, line)
    return { phase: 'connect', ...line, peer: { host: target.host, address: target.address } }
  }
  const undo = whenAborted(signal, () => void line.close('shutdown'))
  const conversation = new Conversation(line, target, manner, dialogue)
  const begun = conversation.begin(heard).finally(undo)
  void begun.catch(() => conversation.close()) // a fault of ours
  const failure = await begun
  if (failure === undefined) return conversation
  conversation.close()
  return { ...failure, peer: conversation.peer }
}

export class Conversation {
  peer: Peer
  /** Mails whose dot was answered. */
  sent = 0
  /** Mails that were refused since the last that was not. */
  refused = 0
  readonly #line: Line
  readonly #target: Target
  readonly #manner: Manner
  #dialogue: Said[]
  #heard: (() => void) | undefined
  #offers: Extensions = noExtensions
  /** Mails that were begun. */
  #begun = 0
  #needsReset = false

  constructor(line: Line, target: Target, manner: Manner, dialogue: Said[]) {
    this.#line = line
    this.#target = target
    this.#manner = manner
    this.#dialogue = dialogue
    const { host, address, tlsPolicy } = target
    this.peer = { host, address, ...(tlsPolicy !== undefined && { tlsPolicy }) }
  }

  /** False once the peer has hung up, or said something that nobody asked for. */
  get alive(): boolean {
    return this.#line.end === undefined && !this.#line.said
  }

  /** Called when the peer stirs between two mails. */
  set surprised(act: (() => void) | undefined) {
    this.#line.surprised = act
  }

  close(): void {
    this.#line.close('closed')
  }

  quit(): Promise<void> {
    return this.#line.quit(this.#ms(limits.smtpQuitMs))
  }

  /** Everything before the first mail. Returns what went wrong. */
  async begin(heard?: () => void): Promise<Facts | undefined> {
    const { tls } = this.#target
    this.#heard = heard
    this.#heard?.()
    if (tls === 'implicit') {
      const trouble = await this.#encrypt('TLS')
      if (trouble !== undefined) return trouble
    }
    const greeting = await this.#hear('greeting', '', limits.smtpCommandMs)
    if (typeof greeting === 'string' || greeting.code !== 220) return notExpected('greeting', greeting)
    const hello = await this.#hello()
    if (hello !== undefined) return hello
    if (tls === 'required' || (tls === 'opportunistic' && this.#offers.startTls)) {
      const trouble = await this.#startTls(tls === 'required')
      if (trouble !== undefined) return trouble
    }
    return this.#target.login === undefined ? undefined : this.#authenticate(this.#target.login)
  }

  /** One mail. The connection must be alive and between mails. */
  async send(mail: Mail, dialogue: Said[]): Promise<Transaction> {
    this.#dialogue = dialogue
    this.#heard = mail.heard?.bind(mail)
    this.#heard?.()
    let form: (Mail & Partial<SevenBit>) | undefined
    const unwatch = whenAborted(mail.signal, () => void this.#line.close('shutdown'))
    try {
      form = takesAsItIs(mail, this.#offers) ? mail : await sevenBitForm(mail)
      if (mail.signal?.aborted === true) return this.#ended('mail', 'shutdown')
      if (form === undefined) return this.#ended('mail', 'no_8bitmime', true)
      return (await this.#envelope(form)) ?? (await this.#content(form, unwatch))
    } catch (error) {
      this.close() // a fault of ours: without a dot, whatever was said so far means nothing
      throw error
    } finally {
      unwatch()
      form?.leave?.()
    }
  }

  /** The server told how many mails it takes over one connection, refused ones too (LIMITS, RFC 9422), and it has had them. */
  get isUsedUp(): boolean {
    return this.#begun >= this.#offers.mailsMax
  }

  // Before the first mail

  /** EHLO; HELO once where it is refused for good (matrix 23). */
  async #hello(): Promise<Facts | undefined> {
    const { hostname } = this.#manner
    this.#offers = noExtensions
    this.#line.textCharactersMax = limits.ehloTextCharactersMax
    this.#line.write(`EHLO ${hostname}\r\n`)
    const reply = await this.#hear('ehlo', `EHLO ${hostname}`, limits.smtpCommandMs)
    this.#line.textCharactersMax = limits.replyTextCharactersMax
    if (typeof reply !== 'string' && reply.code === 250) {
      this.#offers = extensionsOf(reply.text)
      return undefined
    }
    if (typeof reply === 'string' || reply.code < 500) return notExpected('ehlo', reply)
    const older = await this.#ask('ehlo', `HELO ${hostname}`)
    return typeof older !== 'string' && older.code === 250 ? undefined : notExpected('ehlo', older)
  }

  async #startTls(required: boolean): Promise<Facts | undefined> {
    if (!this.#offers.startTls) return { phase: 'tls', trouble: 'tls_failed' }
    const reply = await this.#ask('tls', 'STARTTLS')
    if (typeof reply === 'string') return { phase: 'tls', trouble: reply }
    if (reply.code !== 220) {
      // Offered and not meant: whoever may speak in clear text goes on with it.
      if (reply.code >= 400 && reply.code !== 421 && !required) return undefined
      return notExpected('tls', reply)
    }
    return (await this.#encrypt('TLS handshake')) ?? this.#hello()
  }

  async #encrypt(said: string): Promise<Facts | undefined> {
    const trouble = await this.#line.encrypt(this.#target, this.#ms(limits.smtpCommandMs))
    if (trouble !== undefined) {
      note(this.#dialogue, 'tls', said, trouble)
      return { phase: 'tls', trouble }
    }
    this.peer = { ...this.peer, tls: this.#line.tls ?? 'TLS' }
    this.#heard?.()
    return undefined
  }

  /** RFC 4954, PLAIN or LOGIN. Encrypted or on loopback by the target's rule; neither the dialogue nor a reply ever shows the secret. */
  async #authenticate(login: Login): Promise<Facts | undefined> {
    const steps = authCommands(login, this.#offers)
    if (steps.length === 0) return { phase: 'auth', trouble: 'auth_unavailable' }
    // The longest first, since one may hold another.
    const secrets = [...steps.map(([, secret]) => secret), login.password].toSorted((a, b) => b.length - a.length)
    for (const [index, [command, secret]] of steps.entries()) {
      this.#line.write(`${command}${secret}\r\n`)
      const said = `${command}${secret === '' ? '' : hidden}`
      const reply = await this.#hear('auth', said, limits.smtpCommandMs, secrets)
      const expected = index === steps.length - 1 ? 235 : 334
      if (typeof reply === 'string' || reply.code !== expected) return notExpected('auth', reply)
    }
    return undefined
  }

  // One mail

  /** MAIL, RCPT, DATA. Returns what ended it, or nothing after a 354. */
  async #envelope(mail: Mail): Promise<Transaction | undefined> {
    const offers = this.#offers
    if (mail.needsSmtputf8 && !offers.utf8) return this.#ended('mail', 'smtputf8', true)
    if (offers.sizeMax > 0 && mail.size > offers.sizeMax) return this.#ended('mail', 'size', true)
    if (this.#needsReset) {
      const reply = await this.#ask('mail', 'RSET')
      if (typeof reply === 'string' || reply.code !== 250)
        return this.#ended('mail', typeof reply === 'string' ? reply : 'closed')
      this.#needsReset = false
    }
    const commands = [
      ['mail', mailCommand(mail, offers)],
      ['rcpt', rcptCommand(mail, offers)],
      ['data', 'DATA'],
    ] as const
    this.#begun++
    if (offers.pipelining) this.#line.write(`${commands[0][1]}\r\n${commands[1][1]}\r\nDATA\r\n`)
    for (const [index, [stage, command]] of commands.entries()) {
      if (!offers.pipelining) this.#line.write(`${command}\r\n`)
      const reply = await this.#hear(stage, command, stage === 'data' ? limits.smtpDataMs : limits.smtpCommandMs)
      if (typeof reply === 'string') return this.#ended(stage, reply)
      if (stage === 'data' ? reply.code === 354 : reply.code < 300) continue
      if (reply.code < 400) return this.#ended(stage, 'malformed', false, reply)
      // In clear text because their TLS has failed, which may work the next time.
      const failed = offers.startTls && this.peer.tls === undefined
      if (failed && wantsTls(reply)) return this.#ended(stage, 'tls_failed', false, reply)
      const inStep = !offers.pipelining || (await this.#restRefused(commands.slice(index + 1)))
      this.#needsReset = true
      if (inStep && stage !== 'data' && mayBeForReports(reply, mail, offers)) {
        this.#offers = { ...offers, dsn: false }
        const without = await this.#envelope(mail)
        // Who hangs up behind a refusal has meant it.
        return without?.trouble === 'closed' ? this.#ended(stage, reply) : without
      }
      return this.#ended(stage, reply, inStep)
    }
    return undefined
  }

  /**
   * Reads the replies to what was pipelined behind a refused command. A 354 among them leaves the server waiting for content, which it
   * must not get (matrix 28): then, and when they do not come soon, the connection is of no more use.
   */
  async #restRefused(commands: readonly (readonly [Phase, string])[]): Promise<boolean> {
    for (const [stage, command] of commands) {
      const reply = await this.#hear(stage, command, limits.smtpRestMs)
      if (typeof reply === 'string' || (stage === 'data' && reply.code < 400)) return false
    }
    return true
  }

  /** Content, arm, dot, reply. The order of these lines is the promise. */
  async #content(mail: Mail, unwatch: () => void): Promise<Transaction> {
    const line = this.#line
    await this.#write(mail)
    if (line.end !== undefined || line.said) return this.#early('content', {})

    const answer = await askToArm(mail)
    const armed = answer === 'armed'
    // `failed` may hide a commit that did happen, so that it is to be taken back as well.
    const arm = { armAsked: true, needsDisarm: armed || answer === 'failed' }
    if (!armed) return { ...this.#ended('arm', armTrouble[answer]), ...arm }
    await afterPoll()
    if (line.end !== undefined || line.said) return this.#early('arm', arm)
    if (performance.now() >= mail.deadline()) return { ...this.#ended('arm', 'too_late'), ...arm }

    // From here on they may have it, and an abort must not hide their answer.
    unwatch()
    line.write(finalDot)
    const dot = { armAsked: true, dotWritten: true }
    const reply = await this.#hear('eod', '.', limits.smtpEodMs)
    if (typeof reply === 'string') return { ...this.#ended('eod', reply), ...dot }
    if (reply.code >= 300 && reply.code < 400) return { ...this.#ended('eod', 'malformed', false, reply), ...dot }
    this.sent++
    return { ...this.#ended('eod', reply, true), ...dot }
  }

  /**
   * Apart, so that nothing here holds the content as long as they may take to answer the dot. What they have said is heard before each next block: who
   * refuses a large mail halfway closes the line behind it, and a write that fails on that would end it with the no unread.
   */
  async #write({ content }: Mail): Promise<void> {
    const line = this.#line
    for (const block of wireBlocks(content)) {
      await line.writeThrough(block, this.#ms(limits.smtpBlockMs))
      if (line.end === undefined) this.#heard?.()
      await afterPoll()
      if (line.end !== undefined || line.said) return
    }
  }

  /**
   * They spoke, or hung up, before the dot. 4yz and 5yz are a definite refusal; anything else is out of step, also a reply that has only
   * begun: its end would be taken for the reply to the dot.
   */
  async #early(phase: 'content' | 'arm', arm: Partial<Transaction>): Promise<Transaction> {
    const partial = this.#line.end === undefined && !this.#line.hasReply
    const reply = partial ? 'malformed' : await this.#hear(phase, '', limits.smtpRestMs)
    if (typeof reply === 'string') return { ...this.#ended(phase, reply), ...arm }
    if (reply.code < 400) return { ...this.#ended(phase, 'malformed', false, reply), ...arm }
    return { ...this.#ended(phase, reply), ...arm }
  }

  /** The transaction's end; `inStep`: both sides know that it has ended, so the connection can go on unless they say goodbye. */
  #ended(phase: Phase, why: SmtpReply | Trouble, inStep = false, beside?: SmtpReply): Transaction {
    const reply = typeof why === 'string' ? beside : why
    const reusable = inStep && reply?.code !== 421 && this.alive
    if (!reusable) this.close()
    if (reply !== undefined) this.refused = reply.code < 400 ? 0 : this.refused + 1
    return {
      phase,
      ...(reply !== undefined && { reply }),
      ...(typeof why === 'string' && { trouble: why }),
      peer: this.peer,
      dotWritten: false,
      armAsked: false,
      needsDisarm: false,
      reusable,
    }
  }

  #ask(stage: Phase, command: string): Heard {
    this.#line.write(`${command}\r\n`)
    return this.#hear(stage, command, limits.smtpCommandMs)
  }

  #hear(stage: Phase, said: string, ms: number, secrets: readonly string[] = []): Heard {
    const noted = (answer: SmtpReply | LineTrouble): SmtpReply | LineTrouble => {
      const reply = typeof answer === 'string' ? answer : withoutSecrets(answer, secrets)
      note(this.#dialogue, stage, said, reply)
      this.#heard?.()
      return reply
    }
    const reply = this.#line.reply(this.#ms(ms))
    return reply instanceof Promise ? reply.then(noted) : noted(reply)
  }

  #ms(limit: number): number {
    return Math.max(1, limit / this.#manner.timeoutScale)
  }
}

/** A reply is known at once where it has come already. */
type Heard = SmtpReply | LineTrouble | Promise<SmtpReply | LineTrouble>

/** 4yz and 5yz end it as a reply; any other reply does not belong here. */
function notExpected(phase: Phase, answer: SmtpReply | LineTrouble): Facts {
  if (typeof answer === 'string') return { phase, trouble: answer }
  return answer.code >= 400 ? { phase, reply: answer } : { phase, reply: answer, trouble: 'malformed' }
}
