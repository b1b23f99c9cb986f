// When there was a backup last: a fact of the installation, which every node and the doctor can tell. Of a restored database it is that of the backup
// before, which is not younger than what is there.
import { sql, type Db } from './database.ts'

export interface LastBackup {
  /** As of this instant. */
  readonly takenAt: Date
  /** Left out where other tools have made it. */
  readonly bytes?: number
  readonly ageSeconds: number
}

// The younger one stays: two may run side by side, and end in any order. But for one of a time that has not come: the clock was ahead then, and all that
// are made until it comes would not be noted.
const note = sql(
  'note-backup',
  `insert into installation as i (name, value)
   values ('last_backup', json_build_object('takenAt', to_json(coalesce($1::timestamptz, app_now())) #>> '{}', 'bytes', $2::float8)::text)
   on conflict (name) do update set value = excluded.value
    where (i.value::json ->> 'takenAt')::timestamptz < (excluded.value::json ->> 'takenAt')::timestamptz
       or (i.value::json ->> 'takenAt')::timestamptz > app_now()`,
)
// How old one of a time to come is, nobody knows: as old as it is far, so that it does not pass for one of this moment.
const read = sql(
  'last-backup',
  `select (value::json ->> 'takenAt')::timestamptz "takenAt", (value::json ->> 'bytes')::float8 bytes,
          abs(extract(epoch from app_now() - (value::json ->> 'takenAt')::timestamptz))::float8 "ageSeconds"
     from installation where name = 'last_backup'`,
)

/** Without an instant: now, by tools that are not ours. */
export async function noteBackup(db: Db, made: { readonly takenAt: Date; readonly bytes: number } | undefined) {
  await db.rows(note, [made?.takenAt ?? null, made?.bytes ?? null])
}

/** Undefined where none was ever noted. */
export async function readLastBackup(db: Db): Promise<LastBackup | undefined> {
  const [row] = await db.rows<{ takenAt: Date; bytes: number | null; ageSeconds: number }>(read)
  if (row === undefined) return undefined
  const { takenAt, bytes, ageSeconds } = row
  return { takenAt, ageSeconds, ...(bytes !== null && { bytes }) }
}
