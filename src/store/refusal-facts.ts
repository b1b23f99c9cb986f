// What receivers said about the mail of the last day, and how much of it was a refusal by policy: for the doctor. Looks at the newest reports of
// each workspace, and at a bounded number of them all, of which every workspace has its part: the newest is the likeliest offender.
import { limits } from '../config.ts'
import { sql, type Db } from './database.ts'

export interface RefusalFacts {
  /** Who was spoken to: a mail host, or the relay. */
  readonly host: string
  readonly reports: number
  readonly byPolicy: number
  /** The newest message that was refused so. */
  readonly messageId: string | null
}

// A report that came later does not say whom it is about: whoever the last attempt had spoken to. Row by row, along the keys (docs/decisions/0006); `limit 1`
// keeps the look-up of a host from being done once for each mention of it. On loopback nobody but the sandbox says anything in the session: a relay's replies are
// no reports.
const read = sql(
  'refusal-facts',
  `with busy as materialized (
     select w.id from workspaces w cross join lateral (
       select from reports x where x.workspace_id = w.id and x.message_id >= uuid_floor(app_now() - interval '1 day') limit 1) r),
   part as materialized (select greatest(1, least($1, $2 / greatest(count(*), 1)))::integer most from busy)
   select q.host, count(*)::integer reports, count(*) filter (where q.class = 'policy')::integer "byPolicy",
          max(q.message_id::text) filter (where q.class = 'policy') "messageId"
     from (
       select r.message_id, r.bounce ->> 'class' "class", a.host
         from busy w
         cross join lateral (
           select x.message_id, x.sequence, x.bounce, x.source from reports x
            where x.workspace_id = w.id and x.message_id >= uuid_floor(app_now() - interval '1 day')
            order by x.message_id desc, x.sequence desc limit (select most from part)) r
         cross join lateral (
           select coalesce(
             (select e.facts #>> '{smtp,host}' from events e
               where e.workspace_id = w.id and e.message_id = r.message_id and e.sequence = r.sequence limit 1),
             (select y.facts #>> '{smtp,host}' from attempts y
               where y.workspace_id = w.id and y.message_id = r.message_id order by y.epoch desc limit 1)) host limit 1) a
        where a.host is not null and not (a.host = 'localhost' and r.source = 'session')
        limit $2) q
    group by q.host`,
)

/** At most so many reports of a workspace, and so many of them all. */
export const readRefusalFacts = (
  db: Db,
  ofWorkspace: number = limits.doctorReportsOfWorkspace,
  most: number = limits.doctorReportsRead,
): Promise<RefusalFacts[]> => db.rows<RefusalFacts>(read, [ofWorkspace, most])
