// Content too big for a row: bytes in chunks, staged before the admission that refers to them. Each chunk is committed durably: else a
// crash of the database between staging and admission would leave an accepted message without its content. What no admission adopts
// within an hour is swept.
import { setTimeout } from 'node:timers/promises'
import { joined } from '../base/release.ts'
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { AttachedFile } from '../mail/compose.ts'
import { inBites } from './bites.ts'
import { answeredWithin, sql, type Db, type Statement } from './database.ts'

const announce = sql('stage-blob', 'insert into staged_blobs (id) values ($1)')
const chunk = sql('stage-chunk', 'insert into blobs (id, part, bytes) values ($1, $2, $3)')
const parts = sql(
  'read-blob',
  `select bytes, (select max(l.part) from blobs l where l.id = $1) "last" from blobs where id = $1 and part >= $2 and part < $3 order by part`,
)
const firstParts = sql('read-blob-start', 'select bytes from blobs where id = $1 and part < $2 order by part')
const files = sql(
  'attachments-of-message',
  `select filename, content_type "contentType", blob_id "blobId" from attachments where workspace_id = $1 and message_id = $2 order by position`,
)
const sweep = sql(
  'sweep-blobs',
  `with orphans as materialized (
     select id from staged_blobs where staged_at < app_now() - $1 * interval '1 millisecond' order by id limit $2 for update skip locked),
   gone as (delete from blobs b using orphans o where b.id = o.id)
   delete from staged_blobs s using orphans o where s.id = o.id returning s.id`,
)

/**
 * Writes the chunks; `id` is a UUIDv7, so that the blob lies in the partition of its day. While `pressed`, most of the time is left to others:
 * a large message is many times the work of a small one, on the same disk. Rejects where one of them has no answer in time: what lands later is swept.
 */
export async function stageBlob(
  db: Db,
  id: string,
  bytes: Buffer,
  pressed: () => boolean = () => false,
): Promise<void> {
  const write = (statement: Statement, values: readonly unknown[]) =>
    answeredWithin(limits.stageChunkMs, db.rows(statement, values))
  await write(announce, [id])
  let pausesMs: number = limits.stagePausesMsMax
  for (let part = 0; part === 0 || part * limits.contentChunkBytes < bytes.length; part++) {
    const began = performance.now()
    await write(chunk, [
      id,
      part,
      bytes.subarray(part * limits.contentChunkBytes, (part + 1) * limits.contentChunkBytes),
    ])
    if (!pressed()) continue
    const pauseMs = Math.min(limits.stagePauseParts * (performance.now() - began), limits.stagePauseMsMax, pausesMs)
    pausesMs -= pauseMs
    await setTimeout(pauseMs)
  }
}

/** They come as hexadecimal text, twice as long, which is there beside them until they have been read. */
const chunksAtOnce = 4

/** The bytes of a blob; undefined when they are gone, also where they went meanwhile: never a part of them. */
export async function readBlob(db: Db, id: string): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  for (;;) {
    const from = chunks.length
    const rows = await db.rows<{ bytes: Buffer; last: number }>(parts, [id, from, from + chunksAtOnce])
    const last = rows.at(-1)?.last
    if (last === undefined) return undefined
    for (const { bytes } of rows) chunks.push(bytes)
    if (chunks.length > last) return joined(chunks)
  }
}

/** Its first bytes, at least `most` where it has as many; undefined when they are gone. */
export async function readBlobStart(db: Db, id: string, most: number): Promise<Buffer | undefined> {
  const rows = await db.rows<{ bytes: Buffer }>(firstParts, [id, Math.ceil(most / limits.contentChunkBytes)])
  return rows.length === 0 ? undefined : joined(rows.map((row) => row.bytes))
}

/** What is kept beside the record of a message: its attachments, or the whole mail as it came over SMTP. Undefined where the bytes of one are gone. */
export async function readFiles(db: Db, workspace: WorkspaceId, id: MessageId): Promise<AttachedFile[] | undefined> {
  const rows = await db.rows<{ filename: string; contentType: string; blobId: string }>(files, [workspace, id])
  const read: AttachedFile[] = []
  for (const { filename, contentType, blobId } of rows) {
    const bytes = await readBlob(db, blobId)
    if (bytes === undefined) return undefined
    read.push({ filename, contentType, bytes })
  }
  return read
}

/** Removes blobs that were staged and never referred to; returns how many. */
export function sweepStagedBlobs(db: Db): Promise<number> {
  const most = limits.blobsAtOnce
  return inBites(most, async () => (await db.rows(sweep, [limits.stagedContentMs, most])).length)
}
