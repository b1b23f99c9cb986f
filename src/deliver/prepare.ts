// From a claimed row to the bytes that are sent: composed and signed the same way at every attempt (decisions B), so that whatever a
// receiver gets is the same mail. Message-ID and boundary come from the message's id, Date and the signature's time from its acceptance.
import { isAscii } from 'node:buffer'
import { limits } from '../config.ts'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import { composeMail, headerBlock, type ComposedMail, type HeaderField } from '../mail/compose.ts'
import { readHeaderBlock } from '../mail/header-block.ts'
import { dkimHeaders, type Sign } from '../mail/dkim.ts'
import { makeToken } from '../mail/return-path.ts'
import { inSevenBit } from '../mail/seven-bit-rfc6152.ts'
import { isNothingLeft } from '../base/nothing-left.ts'
import { release } from '../base/release.ts'
import type { Vault } from '../base/secret.ts'
import { inTurn, turnFor, turns } from '../base/turns.ts'
import { readBlob, readFiles } from '../store/blobs.ts'
import type { Db } from '../store/database.ts'
import type { Claimed } from '../store/outbound.ts'
import { makeReturnPathKeys } from '../store/return-path-keys.ts'
import type { Content } from './content.ts'
import { sendingDomains } from './sending-domains.ts'

export interface Prepared extends Content {
  readonly recipient: EmailAddress
  /** The signed return path (decisions C), never the author's own address. */
  readonly envelopeFrom: string
  /** Its local part: what reports will name the message by. */
  readonly token: string
  readonly content: readonly Buffer[]
  readonly needs8bit: boolean
  /** For a host without 8BITMIME: in 7-bit octets, and signed like this. Undefined where it cannot be said in them. */
  readonly sevenBit?: () => Promise<Content | undefined>
  readonly needsSmtputf8: boolean
}

export interface Preparer {
  /**
   * Undefined when the content is gone. Throws for a fault of ours; `NotComposable` where no later try could end otherwise, `GivenUp` where the
   * signal is aborted before its content is read.
   */
  prepare(claimed: Claimed, signal?: AbortSignal): Promise<Prepared | undefined>
}

/** A record that nothing can be made of, whoever tries. */
export class NotComposable extends Error {
  override readonly name = 'NotComposable'
}

/** Nobody waits for it any more. */
export class GivenUp extends Error {
  override readonly name = 'GivenUp'
}

/** Feedback loops often drop the return path, and return the header. Signed, so that nobody else can put it there. */
const tokenField = 'X-Posthorn-Token'
const alsoSigned = [tokenField.toLowerCase()]

export function makePreparer(db: Db, vault: Vault, sign?: Sign): Preparer {
  const domainOf = sendingDomains(db, vault)
  const returnPathKeys = makeReturnPathKeys(db, vault)
  const turn = turns({ most: limits.preparingAtOnceMax, share: limits.preparingAtOnceMax })
  // Content takes its time where it is large, or its disk is slow: claims, heartbeats and reapers are to find a line to the database all the same, and
  // whoever waits for content waits here, where nobody is told that the database was too slow.
  const mayRead = turns({ most: limits.contentReadsMax, share: limits.contentReadsMax })

  const prepare = async (claimed: Claimed, signal?: AbortSignal): Promise<Prepared | undefined> => {
    const recipient = parseAddress(claimed.recipient)
    if (recipient === undefined) throw new NotComposable(`message ${claimed.id} has a recipient that is no address`)
    const make = () => (claimed.source === 'smtp' ? kept(db, claimed) : composed(db, claimed))
    const fetch = async () => {
      const givenUp = () => new GivenUp('it was given up before its content was read')
      const leave = await turnFor(claimed.workspaceId, mayRead, givenUp, signal)
      return make().finally(leave)
    }
    // What has to be fetched is fetched before its turn, which no waiting for the database may hold up.
    const fetched = cameWhole(claimed) ? undefined : await fetch()
    if (fetched === undefined && !cameWhole(claimed)) return undefined
    // Nearly always both are known already.
    const { keysAt, returnPathHost } = await domainOf(claimed)
    const tokenKey = await returnPathKeys.at(claimed.createdAt)
    const token = makeToken(tokenKey, claimed.id, claimed.workspaceId)
    const keys = keysAt(claimed.createdAt)
    const signedForm = async ({ fields, body, signsMore, head: ownHead, rest }: Signable) => {
      const all = [[tokenField, token] as const, ...fields]
      const signedAt = Math.floor(claimed.createdAt.getTime() / 1000)
      const signatures = await dkimHeaders(keys, all, body, signedAt, [...signsMore, ...alsoSigned], sign)
      const head = Buffer.from(`${trace(claimed)}${signatures}${tokenField}: ${token}\r\n${ownHead}`, 'latin1')
      const small = rest.length <= limits.smtpBlockBytes
      return { content: small ? [Buffer.concat([head, rest])] : [head, rest], size: head.length + rest.length }
    }
    // Composed in its turn, too: what is composed long before it is signed lives through rounds of the collector.
    return inTurn(turn, async () => {
      const mail = fetched ?? (await make())
      if (mail === undefined) return undefined
      const sevenBit = () =>
        inTurn(turn, async () => {
          const converted = inSevenBit(mail.rest)
          return converted && signedForm(submitted(claimed, converted))
        })
      return {
        ...(await signedForm(mail)),
        recipient,
        envelopeFrom: `${token}@${returnPathHost ?? claimed.acceptedBy}`,
        token,
        needs8bit: mail.needs8bit,
        ...(mail.needs8bit && { sevenBit }),
        needsSmtputf8: mail.needsSmtputf8 || recipient.needsSmtputf8,
      }
    })
  }
  return { prepare }
}

/** All of its content came with the claim. */
const cameWhole = ({ bodyText, hasAttachments }: Claimed): boolean => bodyText !== null && !hasAttachments

interface Signable {
  readonly fields: readonly HeaderField[]
  readonly body: Buffer
  readonly signsMore: readonly string[]
  /** What is sent behind trace and signature: first `head`, then `rest`. */
  readonly head: string
  readonly rest: Buffer
  readonly needs8bit: boolean
  readonly needsSmtputf8: boolean
}

async function composed(db: Db, claimed: Claimed): Promise<Signable | undefined> {
  const mail = await compose(db, claimed)
  if (mail === undefined) return undefined
  const { fields, body, needsSmtputf8 } = mail
  // Everything composed here is 7-bit clean.
  return { fields, body, signsMore: [], head: headerBlock(fields), rest: body, needs8bit: false, needsSmtputf8 }
}

/** Fields of a mail that others wrote, which a receiver acts upon, some of them only where they are signed (RFC 6376 5.4.1, 8058 4, 9477 3; BIMI). */
const signedToo = [
  'sender',
  'in-reply-to',
  'references',
  'list-id',
  'list-help',
  'list-subscribe',
  'list-unsubscribe',
  'list-unsubscribe-post',
  'list-post',
  'list-owner',
  'list-archive',
  'feedback-id',
  'cfbl-address',
  'cfbl-feedback-id',
  'bimi-selector',
]

/** A mail that was submitted is sent as it is kept: not an octet of it is made anew, unless the next host takes 7 bits alone. */
async function kept(db: Db, claimed: Claimed): Promise<Signable | undefined> {
  const mail = await readMail(db, claimed)
  return mail && submitted(claimed, mail)
}

function submitted(claimed: Claimed, mail: Buffer): Signable {
  const header = readHeaderBlock(mail, limits.submissionHeaderBytesMax + addedHeaderBytesMax)
  if (header === undefined)
    throw new NotComposable(`message ${claimed.id} was submitted with a header that cannot be read`)
  return {
    fields: header.lines.map(({ name, value }) => [name, value] as const),
    body: mail.subarray(header.bodyStart),
    signsMore: signedToo,
    head: '',
    rest: mail,
    needs8bit: !isAscii(mail),
    needsSmtputf8: !isAscii(mail.subarray(0, header.end)),
  }
}

/** What acceptance may have put before the header, Date and Message-ID, and the labels of a 7-bit form. */
const addedHeaderBytesMax = 1_024

async function readMail(db: Db, claimed: Claimed): Promise<Buffer | undefined> {
  if (!claimed.hasAttachments) return claimed.bodyText === null ? undefined : Buffer.from(claimed.bodyText)
  return (await readFiles(db, claimed.workspaceId, claimed.id))?.[0]?.bytes
}

async function compose(db: Db, claimed: Claimed): Promise<ComposedMail | undefined> {
  const bodyText =
    claimed.bodyText ??
    (claimed.bodyBlob === null ? undefined : (await readBlob(db, claimed.bodyBlob))?.toString('utf8'))
  if (bodyText === undefined) return undefined
  const attachments = claimed.hasAttachments ? await readFiles(db, claimed.workspaceId, claimed.id) : []
  if (attachments === undefined) return undefined
  const draft = {
    messageId: claimed.id,
    hostname: hostOf(claimed.sender),
    from: { address: claimed.sender, name: claimed.senderName ?? undefined },
    to: claimed.recipient,
    subject: claimed.subject,
    bodyText,
    attachments,
    createdAt: claimed.createdAt,
    isNotice: claimed.source === 'notice',
  }
  try {
    const mail = composeMail(draft)
    for (const { bytes } of attachments) release(bytes)
    return mail
  } catch (cause) {
    if (isNothingLeft(cause)) throw cause // no memory for it now
    throw new NotComposable(`message ${claimed.id} cannot be composed`, { cause })
  }
}

/** RFC 5321 4.4: how it came in. The name is that of the machine that accepted it, so that every attempt writes the same. */
function trace({ acceptedBy, id, createdAt, source }: Claimed): string {
  const date = createdAt.toUTCString().replace('GMT', '+0000')
  return `Received: by ${acceptedBy} with ${source === 'smtp' ? 'ESMTPSA' : 'HTTP'}\r\n\tid ${id};\r\n\t${date}\r\n`
}

function hostOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1)
}
