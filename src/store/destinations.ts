// What operators have set about destinations: limits that every node keeps to.
import { limits } from '../config.ts'
import { sql, type Db } from './database.ts'

export interface DestinationLimits {
  /** A provider (`google`), the organizational domain of a mail host, or `*`. */
  readonly name: string
  readonly connections: number | null
  readonly messagesPerConnection: number | null
  readonly perMinute: number | null
  /** Whole days since the warm-up began; null: none. */
  readonly warmUpDays: number | null
}

// One that a clock began which was ahead is on its first day until then: before it there would be next to nothing.
const columns = `name, connections, messages_per_connection "messagesPerConnection", per_minute::float8 "perMinute",
  case when warm_up_since is not null then greatest(0, floor(extract(epoch from app_now() - warm_up_since) / 86400))::integer end "warmUpDays"`

const all = sql('destination-limits', `select ${columns} from destination_limits order by name limit $1`)
const set = sql(
  'set-destination-limits',
  `insert into destination_limits as d (name, connections, messages_per_connection, per_minute, warm_up_since)
   values ($1, nullif($2::integer, 0), nullif($3::integer, 0), nullif($4::float8, 0), case when $5::boolean then app_now() end)
   on conflict (name) do update
     set connections = case when $2 is null then d.connections else excluded.connections end,
         messages_per_connection = case when $3 is null then d.messages_per_connection else excluded.messages_per_connection end,
         per_minute = case when $4 is null then d.per_minute else excluded.per_minute end,
         warm_up_since = case when $5 is null then d.warm_up_since when $5 then coalesce(d.warm_up_since, app_now()) end
   returning ${columns}`,
)
const remove = sql('remove-destination-limits', 'delete from destination_limits where name = $1 returning name')

export const listDestinationLimits = (db: Db): Promise<DestinationLimits[]> =>
  db.rows<DestinationLimits>(all, [limits.destinationLimitsMax])

/** What is undefined stays as it is; 0 takes a limit of one's own away. */
export interface DestinationChanges {
  readonly connections?: number
  readonly messagesPerConnection?: number
  readonly perMinute?: number
  readonly warmUp?: boolean
}

export async function setDestinationLimits(
  db: Db,
  name: string,
  changes: DestinationChanges,
): Promise<DestinationLimits> {
  const values = [name, changes.connections, changes.messagesPerConnection, changes.perMinute, changes.warmUp]
  return (
    await db.rows<DestinationLimits>(
      set,
      values.map((value) => value ?? null),
    )
  )[0] as DestinationLimits
}

/** False where there was nothing. */
export async function removeDestinationLimits(db: Db, name: string): Promise<boolean> {
  return (await db.rows(remove, [name])).length > 0
}
