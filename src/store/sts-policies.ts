// MTA-STS policies that were fetched: they have to outlive a restart to be of use (RFC 8461 section 5.1).
import { limits } from '../config.ts'
import { inBites } from './bites.ts'
import { sql, type Db } from './database.ts'

export interface StoredPolicy {
  readonly id: string
  readonly mode: 'enforce' | 'testing' | 'none'
  readonly mx: readonly string[]
  readonly maxAgeSeconds: number
  readonly ageMs: number
}

const read = sql(
  'read-sts-policy',
  `select id, mode, mx, max_age_seconds "maxAgeSeconds", (extract(epoch from greatest(interval '0', app_now() - fetched_at)) * 1000)::float8 "ageMs"
     from mta_sts_policies where domain = $1 and expires_at > app_now()`,
)
const keep = sql(
  'keep-sts-policy',
  `insert into mta_sts_policies (domain, id, mode, mx, max_age_seconds, fetched_at, expires_at)
   values ($1, $2, $3, $4, $5::integer, app_now(), app_now() + $5::integer * interval '1 second')
   on conflict (domain) do update
     set id = excluded.id, mode = excluded.mode, mx = excluded.mx, max_age_seconds = excluded.max_age_seconds,
         fetched_at = excluded.fetched_at, expires_at = excluded.expires_at`,
)
// One that is fetched anew at that moment stays: it is locked, or ends at another time.
const pruneOver = sql(
  'prune-sts-policies-over',
  `delete from mta_sts_policies where domain = any (array(
     select p.domain from mta_sts_policies p where p.expires_at <= app_now() order by p.expires_at limit $1 for update skip locked)) returning domain`,
)
const pruneMany = sql(
  'prune-sts-policies-many',
  `with beyond as materialized (select p.domain, p.expires_at from mta_sts_policies p order by p.expires_at desc offset $1 limit $2)
   delete from mta_sts_policies p using beyond b where p.domain = b.domain and p.expires_at = b.expires_at returning p.domain`,
)

export async function readStsPolicy(db: Db, domain: string): Promise<StoredPolicy | undefined> {
  return (await db.rows<StoredPolicy>(read, [domain]))[0]
}

export async function keepStsPolicy(db: Db, domain: string, policy: Omit<StoredPolicy, 'ageMs'>): Promise<void> {
  await db.rows(keep, [domain, policy.id, policy.mode, policy.mx, policy.maxAgeSeconds])
}

/** Those whose time is over, and beyond `most` those that end first. */
export async function pruneStsPolicies(db: Db, most: number): Promise<void> {
  const bite = limits.housekeepingRows
  await inBites(bite, async () => (await db.rows(pruneOver, [bite])).length)
  await inBites(bite, async () => (await db.rows(pruneMany, [most, bite])).length)
}
