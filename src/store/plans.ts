// Plans, the limits of sending: one function per statement.
import { sql, type Db } from './database.ts'

/** Limits in messages; null: none. */
export interface PlanRow {
  readonly name: string
  readonly apiSending: boolean
  readonly hourly: number | null
  readonly daily: number | null
  readonly monthly: number | null
  readonly upgradeUrl: string | null
}

/** What is left out stays as it is, and is open in a new plan; a limit of null and an empty URL take it away. */
export interface PlanChanges {
  readonly apiSending?: boolean
  readonly hourly?: number | null
  readonly daily?: number | null
  readonly monthly?: number | null
  readonly upgradeUrl?: string
}

const planColumns = 'name, api_sending "apiSending", hourly, daily, monthly, upgrade_url "upgradeUrl"'

const plans = sql('list-plans', `select ${planColumns} from plans order by name`)
const keep = sql('keep-plan', 'select name from plans where name = $1 for key share')
const lock = sql('lock-plan', 'select name from plans where name = $1 for update')
const upsertPlan = sql(
  'upsert-plan',
  `insert into plans as p (name, api_sending, hourly, daily, monthly, upgrade_url)
   values ($1, coalesce($2, true), nullif($3, -1), nullif($4, -1), nullif($5, -1), nullif($6, ''))
   on conflict (name) do update
     set api_sending = coalesce($2, p.api_sending), hourly = nullif(coalesce($3, p.hourly), -1),
         daily = nullif(coalesce($4, p.daily), -1), monthly = nullif(coalesce($5, p.monthly), -1),
         upgrade_url = nullif(coalesce($6, p.upgrade_url), '')
   where not $7::boolean
   returning ${planColumns}`,
)
const plansUsed = sql('who-uses-plan', 'select name from workspaces where plan = $1 order by name')
const removePlan = sql('delete-plan', 'delete from plans where name = $1')

export const listPlanRows = (db: Db): Promise<PlanRow[]> => db.rows<PlanRow>(plans)

/** For who gives it to a workspace: it stays until the transaction ends. False where there is none. */
export async function keepPlan(tx: Db, name: string): Promise<boolean> {
  return (await tx.rows(keep, [name])).length === 1
}
/** For who removes it: until the transaction ends nobody gives it to a workspace. False where there is none. */
export async function lockPlan(tx: Db, name: string): Promise<boolean> {
  return (await tx.rows(lock, [name])).length === 1
}

/** Makes or changes a plan. Undefined where it must be new and is not: that one stays as it is. */
export async function savePlan(
  db: Db,
  name: string,
  { apiSending, hourly, daily, monthly, upgradeUrl }: PlanChanges,
  mustBeNew: boolean,
): Promise<PlanRow | undefined> {
  // To the statement null is what stays.
  const limits = [hourly, daily, monthly].map((limit) => (limit === null ? -1 : (limit ?? null)))
  const values = [name, apiSending ?? null, ...limits, upgradeUrl ?? null, mustBeNew]
  return (await db.rows<PlanRow>(upsertPlan, values))[0]
}

/** Names of the workspaces that have it. */
export async function workspacesOnPlan(db: Db, name: string): Promise<string[]> {
  return (await db.rows<{ name: string }>(plansUsed, [name])).map((row) => row.name)
}

export async function deletePlan(tx: Db, name: string): Promise<void> {
  await tx.rows(removePlan, [name])
}
