// What the sandbox received, for the dashboard's inbox: written before the sandbox answers 250, in batches like everything else.
import { randomUUID } from 'node:crypto'
import { limits } from '../config.ts'
import { Batch } from '../base/batch.ts'
import { sql, surelyAborted, type Db } from './database.ts'

interface Kept {
  readonly envelopeFrom: string
  readonly recipient: string
  readonly content: Buffer
  readonly receivedAt: Date
}

const insert = sql(
  'sandbox-keep',
  `insert into sandbox_mail (id, received_at, envelope_from, recipient, content)
   select m.id, m.at, m.sender, m.recipient, decode(m.content, 'base64')
     from json_to_recordset($1::text::json) as m (id uuid, at timestamptz, sender text, recipient text, content text)`,
)
const prune = sql(
  'sandbox-prune',
  `delete from sandbox_mail where id in (
     select id from sandbox_mail order by received_at desc offset $1 limit 5000) returning id`,
)

/** Keeps mails; each call resolves when its mail is committed. */
export function makeSandboxInbox(db: Db): (mail: Kept) => Promise<void> {
  const batch = new Batch<Kept, void>(
    async (mails) => {
      const rows = mails.map((mail) => ({
        id: randomUUID(),
        at: mail.receivedAt,
        sender: mail.envelopeFrom,
        recipient: mail.recipient,
        content: mail.content.toString('base64'),
      }))
      await db.rows(insert, [JSON.stringify(rows)])
      return []
    },
    { rowsMax: 200, bytesMax: 16 * 1024 * 1024, waitingMax: limits.smtpSessionsMax },
    surelyAborted,
  )
  return (mail) => batch.add(mail, mail.content.length)
}

/** Removes the oldest mails beyond the inbox's size. */
export async function pruneSandbox(db: Db): Promise<void> {
  while ((await db.rows(prune, [limits.sandboxInboxMax])).length === 5_000);
}
