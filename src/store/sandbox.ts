// What the sandbox received, for the dashboard's inbox: written before the sandbox answers 250, in batches like everything else.
import { randomUUIDv7 } from 'node:crypto'
import { limits } from '../config.ts'
import { Batch } from '../base/batch.ts'
import { doneFor } from '../base/turns.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { isGenuine, readToken, type ReturnPathKey } from '../mail/return-path.ts'
import { inBites } from './bites.ts'
import { dated, inAnyCase, sql, mayBlameRows, type Db } from './database.ts'
import { greatestId } from './message-id.ts'
import { cutPage } from './page.ts'
import type { ReturnPathKeys } from './return-path-keys.ts'

interface Kept {
  readonly envelopeFrom: string
  readonly recipient: string
  readonly content: Buffer
}

/** Whose a mail is. */
interface Owner {
  readonly workspaceId: WorkspaceId
  readonly messageId: MessageId
}

const insert = sql(
  'sandbox-keep',
  `insert into sandbox_mail (id, received_at, envelope_from, recipient, content, workspace_id, message_id)
   select ${dated('m.id')}, app_now(), m.sender, m.recipient, decode(m.content, 'base64'), m.workspace, m.message
     from json_to_recordset($1::text::json) as m (id uuid, sender text, recipient text, content text, workspace uuid, message uuid)`,
)
/** One that comes alone, as every large one does, as it is: in base64 and JSON the database would hold it ten times. */
const insertOne = sql(
  'sandbox-keep-one',
  `insert into sandbox_mail (id, received_at, envelope_from, recipient, content, workspace_id, message_id)
   values (${dated('$1::uuid')}, app_now(), $2, $3, $4, $5, $6)`,
)
const queued = sql(
  'sandbox-queued',
  `select workspace_id "workspaceId", message_id "messageId" from outbound where message_id = any ($1::uuid[])`,
)
const columns = `m.id, m.received_at "receivedAt", m.envelope_from "envelopeFrom", m.recipient, m.message_id "messageId",
     octet_length(m.content) "sizeBytes"`
/** By the index of workspaces alone: by that of ids it would go through the mail of everybody else (decision 0006). */
const walk =
  '(m.workspace_id, m.id) < ($1::uuid, $2::uuid) and m.workspace_id >= $1 order by m.workspace_id desc, m.id desc'
const page = sql(
  'page-sandbox',
  `select ${columns}, substr(m.content, 1, 16384) head
     from sandbox_mail m where ${walk} limit $3`,
)
/** PostgreSQL knows the forms of characters in UTF8 alone, and fails elsewhere. */
function folded(text: string): string {
  return `case when getdatabaseencoding() = 'UTF8' then normalize(${inAnyCase(text)}) else ${inAnyCase(text)} end`
}
/**
 * Walks at most $4 mails; the row without a recipient says where the walk ended. No subject is read out of a mail: that of its message's record is
 * looked at, and of what has no record any more the recipient alone.
 */
const searched = sql(
  'search-sandbox',
  `with asked as materialized (select ${folded('$5::text')} recipient, lower($7::text) words, ${inAnyCase('$7::text')} address),
   walk as materialized (
     select m.id, m.recipient, m.message_id from sandbox_mail m where ${walk} limit $4),
   found as (
     select w.id from walk w cross join asked a
      where (a.recipient is null or ${folded('w.recipient')} = a.recipient) and ($6::uuid is null or w.message_id = $6)
        and (a.words is null or position(a.address in ${inAnyCase('w.recipient')}) > 0
             or position(a.words in (select lower(r.subject) from messages r where r.workspace_id = $1 and r.id = w.message_id)) > 0)
      order by w.id desc limit $3)
   (select ${columns}, substr(m.content, 1, 16384) head
      from sandbox_mail m where m.workspace_id = $1 and m.id in (select id from found) order by m.id desc)
   union all
   (select w.id, null, null, null, null, null, null from walk w where (select count(*) from walk) = $4 order by w.id limit 1)`,
)
/** Mail comes while its message is being delivered, or little later where its worker was lost; what other mail of this time says is not read. */
const ofMessage = sql(
  'sandbox-mail-of-message',
  `select m.id from sandbox_mail m, (select created_at, finished_at from messages where workspace_id = $1 and id = $2) r
    where m.workspace_id = $1 and m.message_id = $2 and m.id >= uuid_floor(r.created_at)
      and m.id < uuid_floor(coalesce(r.finished_at, app_now()) + interval '1 hour')
    order by m.id desc limit 1`,
)
const one = sql('read-sandbox', `select ${columns} from sandbox_mail m where m.workspace_id = $1 and m.id = $2`)
const slice = sql(
  'read-sandbox-slice',
  'select substr(content, $3, $4) bytes from sandbox_mail where workspace_id = $1 and id = $2',
)

export interface SandboxRow {
  readonly id: string
  readonly receivedAt: Date
  readonly envelopeFrom: string
  readonly recipient: string
  readonly messageId: string | null
  readonly sizeBytes: number
}

/** Which mails are looked for. */
export interface SandboxFilter {
  /** A whole address, in any case. */
  readonly recipient?: string
  readonly messageId?: string
  /** Somewhere in the subject or the recipient, in any case. */
  readonly text?: string
}

interface PageRow extends SandboxRow {
  readonly head: Buffer
}

export interface SandboxPage {
  /** `head` is the beginning of each mail. */
  readonly mails: readonly PageRow[]
  /** Where the next page begins; undefined at the end. */
  readonly next?: string
}

/** Newest first, from before an id; a search looks at a bounded number of them (decision 0027). */
export async function pageSandbox(
  db: Db,
  workspace: WorkspaceId,
  { before = greatestId, most }: { readonly before?: string | undefined; readonly most: number },
  { recipient, messageId, text }: SandboxFilter = {},
): Promise<SandboxPage> {
  const bounds = [workspace, before, most + 1]
  const isFiltered = [recipient, messageId, text].some((each) => each !== undefined)
  const wanted = [limits.sandboxScannedMax, recipient ?? null, messageId ?? null, text ?? null]
  const rows = await (isFiltered ? db.rows<PageRow>(searched, [...bounds, ...wanted]) : db.rows<PageRow>(page, bounds))
  const { shown, last } = cutPage(rows, most, (row) => row.recipient === null)
  return { mails: shown, ...(last !== undefined && { next: last.id }) }
}

/** The mail that a message became, where the sandbox keeps it. */
export async function sandboxMailOf(db: Db, workspace: WorkspaceId, message: MessageId): Promise<string | undefined> {
  return (await db.rows<{ id: string }>(ofMessage, [workspace, message]))[0]?.id
}

export async function readSandboxMail(db: Db, workspace: WorkspaceId, id: string): Promise<SandboxRow | undefined> {
  return (await db.rows<SandboxRow>(one, [workspace, id]))[0]
}

/** The octets, slice by slice as they are asked for: whole, the database and we would each hold them three times. Throws when the mail goes meanwhile. */
export async function* readSandboxContent(
  db: Db,
  workspace: WorkspaceId,
  { id, sizeBytes }: SandboxRow,
): AsyncGenerator<Buffer> {
  for (let at = 0; at < sizeBytes; at += limits.sandboxSliceBytes) {
    const values = [workspace, id, at + 1, limits.sandboxSliceBytes]
    const [row] = await doneFor(workspace, () => db.rows<{ bytes: Buffer }>(slice, values))
    if (row === undefined) throw new Error('the mail was removed while it was read')
    yield row.bytes
  }
}

// A bite ends with the mail that makes it $2 octets: each may be large, and a statement has its time.
/** The newest of each workspace, as many for each, and more where others have fewer: nobody's mails push out those of another. */
const prune = sql(
  'sandbox-prune',
  `with surplus as materialized (
     select o.* from (
       select id, octet_length(content)::bigint size, row_number() over (partition by workspace_id order by id desc) nth from sandbox_mail) o
      order by o.nth, o.id desc offset $1 limit 5000),
   turns as (select s.id, sum(s.size) over (order by s.nth, s.id desc) - s.size before from surplus s)
   delete from sandbox_mail where id in (select t.id from turns t where t.before < $2) returning id`,
)
const pruneBytes = sql(
  'sandbox-prune-bytes',
  `with sized as (select id, workspace_id, octet_length(content)::bigint size from sandbox_mail),
   own as (select id, size, sum(size) over (partition by workspace_id order by id desc) bytes from sized),
   shared as (select id, size, sum(size) over (order by bytes, id desc) bytes from own),
   turns as (select s.id, sum(s.size) over (order by s.bytes desc, s.id) - s.size before from shared s where s.bytes > $1)
   delete from sandbox_mail where id in (select t.id from turns t where t.before < $2 limit 5000) returning id`,
)

/**
 * Keeps mails; each call resolves when its mail is committed. A mail belongs to the message whose return path it has: nothing that its author
 * wrote, such as a Message-ID, says whose it is. Mail of others belongs to nobody.
 */
export function makeSandboxInbox(db: Db, keys: Pick<ReturnPathKeys, 'named'>): (mail: Kept) => Promise<void> {
  const ownersOf = async (mails: readonly Kept[]): Promise<(Owner | undefined)[]> => {
    const tokens = mails.map(({ envelopeFrom }) => readToken(envelopeFrom.slice(0, envelopeFrom.lastIndexOf('@'))))
    const named = new Map<string, ReturnPathKey | undefined>()
    for (const token of tokens) if (token !== undefined) named.set(token.keyId, await keys.named(token.keyId))
    // A message that is being delivered stands in the queue, which knows whose it is.
    const ids = tokens.flatMap((token) => token?.messageId ?? [])
    const rows = ids.length === 0 ? [] : await db.rows<Owner>(queued, [ids])
    const owners = new Map<string, Owner>(rows.map((row) => [row.messageId, row]))
    return tokens.map((token) => {
      const owner = token && owners.get(token.messageId)
      const key = token && named.get(token.keyId)
      return owner && key && isGenuine(token, key, owner.workspaceId) ? owner : undefined
    })
  }
  const batch = new Batch<Kept, void>(
    async (mails) => {
      const owners = await ownersOf(mails)
      const rows = mails.map(({ envelopeFrom, recipient, content }, index) => ({
        id: randomUUIDv7(),
        sender: envelopeFrom,
        recipient,
        content,
        workspace: owners[index]?.workspaceId,
        message: owners[index]?.messageId,
      }))
      const [row] = rows
      if (row !== undefined && rows.length === 1)
        await db.rows(insertOne, [row.id, row.sender, row.recipient, row.content, row.workspace, row.message])
      else
        await db.rows(insert, [
          JSON.stringify(rows.map((row) => ({ ...row, content: row.content.toString('base64') }))),
        ])
      return []
    },
    { rowsMax: 200, bytesMax: limits.admitBytesMax, waitingMax: limits.smtpSessionsMax },
    mayBlameRows,
  )
  return (mail) => batch.add(mail, mail.content.length)
}

/** Removes the oldest mails beyond the inbox's size, of those who have most. */
export async function pruneSandbox(
  db: Db,
  bytesMax: number = limits.sandboxInboxBytesMax,
  biteBytes: number = limits.sandboxPrunedBytesAtOnce,
): Promise<void> {
  await inBites(1, async () => (await db.rows(prune, [limits.sandboxInboxMax, biteBytes])).length)
  await inBites(1, async () => (await db.rows(pruneBytes, [bytesMax, biteBytes])).length)
}
