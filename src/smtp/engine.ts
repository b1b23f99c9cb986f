// The server's side of SMTP (RFC 5321 with PIPELINING, SIZE, 8BITMIME, SMTPUTF8, ENHANCEDSTATUSCODES, CHUNKING, STARTTLS, AUTH)
// without I/O: bytes go in, replies come out through a `Wire`, and a `Policy` decides. Cutting the input anywhere gives the same
// replies; while a decision is pending, pipelined input waits. Submission, the bounce mailbox and the sandbox all stand on it.
import { commandText, parseCommand, type Mistake, type SmtpCommand } from '../mail/smtp-command.ts'
import { Content } from './content.ts'
import { ehloReply, isAscii, readMailParameters } from './extensions.ts'
import { Input } from './input.ts'
import { Intake, type Taken } from './intake.ts'
import { beginLogin, type LoginStep } from './login.ts'
import { newStanding, whyNotContent, whyNotLogin, whyNotMail, whyNotTls, type Standing } from './order.ts'
import { answerOf, type Decision } from './policy.ts'
import { formatReply, isPositive, mistakeReplies, replies, type Answer, type Reply } from './reply.ts'
import type { SessionParts } from './session-parts.ts'

type Path = Extract<SmtpCommand, { verb: 'MAIL' | 'RCPT' }>
type Mode = 'command' | 'login' | 'content' | 'handshake' | 'ended'
type Asking = Extract<LoginStep, { kind: 'ask' }>

/** What is wrong with these is wrong with a mail that somebody wanted to hand in. */
const aboutMail: ReadonlySet<Mistake> = new Set(['sender', 'recipient', 'parameter'])

export class SmtpSession {
  readonly #parts: SessionParts
  #mode: Mode = 'command'
  #waiting = false
  #running = false
  #inputEnded = false
  /** Ended from our side, and the wire has not been told yet. */
  #closing = false
  #retiring: Reply | undefined

  readonly #input: Input
  readonly #intake: Intake
  #out = ''

  readonly #standing: Standing
  #login: Asking | undefined
  #errors = 0
  #lines = 0

  constructor(parts: SessionParts) {
    this.#parts = parts
    this.#standing = newStanding(parts.secure)
    this.#input = new Input(parts.limits.commandBytesMax)
    const { limits, room, policy, offer } = parts
    this.#intake = new Intake(
      () => new Content(limits.messageBytesMax, room, policy.owner?.(), offer.takesBareLineEnds === true),
    )
  }

  /** Greets. Input that came before waits behind the greeting. */
  open(): void {
    const { policy, offer } = this.#parts
    this.#decide(
      () => policy.greet?.() ?? { code: 220, text: `${offer.hostname} ESMTP Posthorn` },
      (reply) => {
        this.#standing.greeted = reply.code === 220
        this.#say(reply)
      },
    )
    this.#run()
  }

  /** Bytes from the peer. The chunk is the session's own from here on. */
  push(chunk: Buffer): void {
    // In the handshake: clear text that somebody put behind STARTTLS (RFC 3207 4.2). It must never be read as if TLS had brought it.
    if (this.#mode === 'ended' || this.#mode === 'handshake') return
    this.#input.add(chunk)
    this.#run()
  }

  /** TLS stands: whatever was said before counts no more. */
  secured(): void {
    if (this.#mode !== 'handshake') return
    this.#mode = 'command'
    Object.assign(this.#standing, { ...newStanding(true), greeted: true })
    this.#forget()
  }

  /** The peer sends nothing more: what has come is worked off, then we close. */
  inputEnded(): void {
    this.#inputEnded = true
    this.#run()
  }

  /** The connection is lost. */
  gone(): void {
    this.#end()
    this.#closing = false
    this.#parts.policy.ended?.()
  }

  /** Ends the session with `reply` before the next command, and not in the middle of a message. */
  retire(reply: Reply): void {
    this.#retiring = reply
    this.#run()
  }

  /** Ends the session with `reply` now; only a decision about a message is still waited for. */
  cut(reply: Reply): void {
    if (this.#mode === 'content') this.#mode = 'command'
    this.#intake.forget()
    this.retire(reply)
  }

  /** A decision is pending: silence is ours, not the peer's. */
  get waiting(): boolean {
    return this.#waiting
  }

  /** Input that waits for a decision. */
  get heldBytes(): number {
    return this.#input.heldBytes
  }

  /** Grows with every command and every KiB of content, and not with single bytes: who drips makes no progress. */
  get progress(): number {
    return this.#lines + Math.floor(this.#intake.bytes / 1024)
  }

  #run(): void {
    if (this.#running || this.#waiting) return
    this.#running = true
    this.#input.join()
    while (this.#goesOn() && this.#step());
    this.#running = false
    // A kept session holds no memory between its mails.
    if (this.#input.heldBytes === 0) this.#input.drop()
    if (this.#inputEnded && !this.#waiting) this.#end()
    // Replies to pipelined commands leave together (RFC 2920 3.2), but none waits for input that has not come.
    if (this.#waiting && this.#input.heldBytes > 0) return
    this.#flush()
  }

  #goesOn(): boolean {
    if (this.#waiting || this.#mode === 'ended' || this.#mode === 'handshake') return false
    if (this.#retiring === undefined || this.#mode === 'content' || this.#intake.isChunked) return true
    this.#say(this.#retiring)
    return false
  }

  /** One command, one line of a login, or a piece of content. False when there is not enough input. */
  #step(): boolean {
    if (this.#mode === 'content') return this.#readContent()
    const line = this.#input.line()
    if (line === undefined) return false
    this.#lines++
    if (line === 'bare') this.#say(replies.bareLineFeed)
    else if (this.#mode === 'login') this.#goOnWithLogin(line)
    else if (line === 'overlong') this.#object(replies.lineTooLong)
    else this.#obey(parseCommand(line))
    return true
  }

  #obey(command: SmtpCommand): void {
    if (!this.#standing.greeted && command.verb !== 'QUIT') return this.#object(replies.outOfOrder)
    switch (command.verb) {
      case 'EHLO':
      case 'HELO':
        return this.#greetClient(command.verb)
      case 'MAIL':
        return this.#beginMail(command)
      case 'RCPT':
        return this.#addRecipient(command)
      case 'DATA':
        return this.#beginData()
      case 'BDAT':
        return this.#beginChunk(command.bytes, command.last)
      case 'AUTH':
        return this.#beginLogin(command.mechanism, command.initial)
      case 'STARTTLS':
        return this.#beginTls()
      case 'RSET':
        this.#forget()
        return this.#say(replies.ok)
      case 'NOOP':
        return this.#say(replies.ok)
      case 'VRFY':
        return this.#say(replies.cannotVerify)
      case 'HELP':
        return this.#say(replies.help)
      case 'EXPN':
        return this.#object(replies.notOffered)
      case 'QUIT':
        return this.#say(replies.bye)
      case 'wrong':
        return this.#object(mistakeReplies[command.mistake], aboutMail.has(command.mistake) ? [] : undefined)
      default:
        return command satisfies never
    }
  }

  #greetClient(hello: 'EHLO' | 'HELO'): void {
    this.#forget()
    this.#standing.hello = hello
    const { offer, limits } = this.#parts
    this.#say(
      hello === 'EHLO'
        ? ehloReply(offer, this.#standing.secure, limits.messageBytesMax)
        : { code: 250, text: offer.hostname },
    )
  }

  #beginMail(mail: Path): void {
    const { offer, policy, limits } = this.#parts
    const refusal = whyNotMail(this.#standing, offer)
    if (refusal !== undefined) return this.#object(refusal)
    if (this.#standing.hello !== 'EHLO' && mail.parameters.length > 0) return this.#object(replies.unknownParameter)
    const parameters = readMailParameters(mail, offer, limits.messageBytesMax)
    if ('code' in parameters) return this.#object(parameters, [], mail.path)
    this.#decide(
      () => policy.mail(mail.path, parameters),
      (reply) => {
        if (isPositive(reply))
          this.#standing.transaction = { from: mail.path, parameters, recipients: [], rcptSaid: false }
        this.#say(reply)
      },
    )
  }

  #addRecipient(rcpt: Path): void {
    const transaction = this.#standing.transaction
    if (transaction === undefined) return this.#object(replies.sayMail)
    if (this.#intake.isChunked) return this.#object(replies.outOfOrder)
    if (rcpt.parameters.length > 0) return this.#object(replies.unknownParameter, [rcpt.path])
    transaction.rcptSaid = true
    if (!transaction.parameters.smtputf8 && !isAscii(rcpt.path)) return this.#object(replies.needsSmtputf8, [rcpt.path])
    if (transaction.recipients.length >= this.#parts.limits.recipientsMax) return this.#say(replies.tooManyRecipients)
    this.#decide(
      () => this.#parts.policy.rcpt(rcpt.path),
      (reply) => {
        if (isPositive(reply)) transaction.recipients.push(rcpt.path)
        this.#say(reply)
      },
    )
  }

  #beginData(): void {
    const refusal = whyNotContent(this.#standing) ?? (this.#intake.isChunked ? replies.chunksOnly : undefined)
    if (refusal !== undefined) return this.#object(refusal)
    this.#intake.beginData()
    this.#mode = 'content'
    this.#say(replies.goAhead)
  }

  #beginChunk(bytes: number, last: boolean): void {
    const refusal = this.#parts.offer.chunking ? whyNotContent(this.#standing) : replies.notOffered
    this.#intake.beginChunk(bytes, last, refusal)
    this.#mode = 'content'
  }

  #readContent(): boolean {
    const taken = this.#intake.read(this.#input)
    if (taken === undefined) return false
    this.#mode = 'command'
    this.#answerContent(taken)
    return true
  }

  #answerContent(taken: Taken): void {
    switch (taken.kind) {
      case 'message':
        return this.#finishMessage(taken.content)
      case 'chunk':
        return this.#say(replies.chunkOk)
      case 'refused':
        return this.#object(taken.refusal)
      default:
        return taken satisfies never
    }
  }

  /** The content is complete, or spoiled; the transaction is over either way. */
  #finishMessage(content: Content): void {
    const { transaction } = this.#standing
    this.#standing.transaction = undefined
    if (content.trouble !== undefined || transaction === undefined) {
      content.release()
      const reply = replies[content.trouble ?? 'outOfOrder']
      this.#parts.policy.refused?.(reply, transaction?.recipients ?? [], transaction?.from)
      return this.#say(reply)
    }
    const { from, parameters, recipients } = transaction
    const envelope = { from, recipients, ...parameters }
    // A scan may take its time: what was said before does not wait for it.
    this.#flush()
    this.#decide(
      () => this.#parts.policy.message(content.whole(), envelope),
      (reply) => {
        if (isPositive(reply)) this.#errors = 0
        this.#say(reply)
      },
      () => content.release(),
    )
  }

  #beginLogin(mechanism: string, initial: string | undefined): void {
    const refusal = whyNotLogin(this.#standing, this.#parts.offer)
    if (refusal !== undefined) return this.#object(refusal)
    this.#takeLoginStep(beginLogin(mechanism, initial))
  }

  #goOnWithLogin(line: Buffer | 'overlong'): void {
    const login = this.#login
    this.#login = undefined
    this.#mode = 'command'
    if (line === 'overlong' || login === undefined) return this.#object(replies.authTooLong)
    const response = commandText(line)
    this.#takeLoginStep(
      response === undefined ? { kind: 'refused', reply: replies.authMalformed } : login.next(response),
    )
  }

  #takeLoginStep(step: LoginStep): void {
    if (step.kind === 'refused') return this.#object(step.reply)
    if (step.kind === 'ask') {
      this.#login = step
      this.#mode = 'login'
      return this.#say({ code: 334, text: step.challenge })
    }
    this.#decide(
      () => this.#parts.policy.auth?.(step.user, step.password) ?? replies.authRefused,
      (reply) => {
        this.#standing.loginTrouble = reply.code < 500 ? reply : undefined
        if (!isPositive(reply)) return this.#object(reply)
        this.#standing.user = step.user
        this.#say(reply)
      },
    )
  }

  #beginTls(): void {
    const refusal = whyNotTls(this.#standing, this.#parts.offer)
    if (refusal !== undefined) return this.#object(refusal)
    this.#say(replies.readyForTls)
    this.#mode = 'handshake'
    this.#input.drop()
    this.#flush()
    this.#parts.wire.startTls()
  }

  /** Puts a question to the policy. `done` runs when the answer is known, even if nobody is there to hear it. */
  #decide(ask: () => Decision, settle: (reply: Reply) => void, done?: () => void): void {
    const hear = (answer: Answer): void => {
      done?.()
      if (this.#mode === 'ended') return
      if (answer === 'drop') this.#end()
      else settle(answer)
    }
    const answer = answerOf(ask, this.#parts.fault)
    if (!(answer instanceof Promise)) return hear(answer)
    this.#waiting = true
    void answer.then((decided) => {
      this.#waiting = false
      hear(decided)
      this.#run()
      if (!this.#waiting && this.#mode !== 'ended') this.#parts.wire.ready()
    })
  }

  /** A reply to an error of the peer's, which is counted. Given recipients, it is about a mail, of which the policy hears nothing else. */
  #object(reply: Reply, recipients?: readonly string[], from = this.#standing.transaction?.from): void {
    if (recipients !== undefined) this.#parts.policy.refused?.(reply, recipients, from)
    this.#say(reply)
    this.#errors++
    if (this.#errors >= this.#parts.limits.errorsMax) this.#say(replies.tooManyErrors)
  }

  #say(reply: Reply): void {
    if (this.#mode === 'ended') return
    this.#out += formatReply(reply)
    if (reply.close === true || reply.code === 421) this.#end()
  }

  #end(): void {
    if (this.#mode === 'ended') return
    this.#mode = 'ended'
    this.#closing = true
    this.#forget()
    this.#input.drop()
  }

  /** Ends the transaction and whatever of it was being read. */
  #forget(): void {
    this.#intake.forget()
    this.#login = undefined
    this.#standing.transaction = undefined
  }

  #flush(): void {
    const { wire } = this.#parts
    const text = this.#out
    this.#out = ''
    if (text !== '') wire.write(text)
    if (!this.#closing) return
    this.#closing = false
    wire.close()
  }
}
