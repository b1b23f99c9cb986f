// The disk is full (failure matrix 6): nothing is accepted that is not kept, the process lives on, and goes on by itself when there is room.
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { atTheEnd, ending, temporaryFolder } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'

const asRoot = process.getuid?.() === 0
let posthorn: Posthorn
let shop: JourneyWorkspace
const folder = temporaryFolder()
if (asRoot) atTheEnd(() => execFileSync('umount', [folder]))
beforeAll(async () => {
  posthorn = await ending(startPosthorn, { settings: { POSTHORN_ROLES: 'api' } })
  shop = await posthorn.workspace()
})

/** Fills the disk that new content goes to; answers what makes room again. Without root, PostgreSQL's own word for it must do. */
async function fill(): Promise<() => Promise<void>> {
  if (!asRoot) {
    await posthorn.query(
      `create function no_room() returns trigger language plpgsql as $$ begin raise exception 'no room' using errcode = 'disk_full'; end $$`,
    )
    await posthorn.query('create trigger no_room before insert on blobs for each row execute function no_room()')
    return async () => void (await posthorn.query('drop trigger no_room on blobs'))
  }
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m,mode=777', 'tmpfs', folder])
  const [cluster] = await posthorn.query<{ path: string }>(`select current_setting('data_directory') path`)
  execFileSync('chown', ['--reference', cluster?.path ?? '', folder])
  await posthorn.query(`create tablespace small_disk location '${folder}'`)
  const partitions = await posthorn.query<{ name: string }>(
    `select inhrelid::regclass::text name from pg_inherits where inhparent = 'blobs'::regclass`,
  )
  for (const { name } of partitions) await posthorn.query(`alter table ${name} set tablespace small_disk`)
  const file = join(folder, 'filling')
  const handle = openSync(file, 'w')
  try {
    for (const block = Buffer.alloc(64 * 1024); ;) writeSync(handle, block)
  } catch (error) {
    expect((error as NodeJS.ErrnoException).code).toBe('ENOSPC')
  } finally {
    closeSync(handle)
  }
  return async () => {
    rmSync(file)
    await Promise.resolve()
  }
}

test('6: 503 while it is full, nothing kept and nothing charged; accepted again, without a restart, when there is room', async () => {
  const makeRoom = await fill()
  const sending = {
    recipient: 'ok@there.example',
    attachments: [{ filename: 'a.bin', contentBase64: Buffer.alloc(2 * 1024 * 1024, 1).toString('base64') }],
  }
  const state = () =>
    posthorn.query(
      `select (select count(*)::integer from messages) kept, (select count(*)::integer from outbound) queued, month_count charged
         from usage where workspace_id = $1`,
      [shop.id],
    )
  const before = await state()
  for (let n = 0; n < 3; n++) {
    const { status, headers } = await shop.send(sending)
    expect([status, Number(headers.get('retry-after')) > 0]).toEqual([503, true])
  }
  expect(await state()).toEqual(before)
  await makeRoom()
  const { status, body } = await shop.send(sending)
  expect(status).toBe(202)
  expect(await posthorn.query('select message_id id from outbound')).toEqual([{ id: body.id }])
  if (asRoot) {
    const partitions = await posthorn.query<{ name: string }>(
      `select inhrelid::regclass::text name from pg_inherits where inhparent = 'blobs'::regclass`,
    )
    for (const { name } of partitions) await posthorn.query(`alter table ${name} set tablespace pg_default`)
    await posthorn.query('drop tablespace small_disk')
  }
}, 180_000)
