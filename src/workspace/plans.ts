// Plans: how much a workspace may send.
import type { Db } from '../store/database.ts'
import { deletePlan, keepPlan, listPlanRows, lockPlan, savePlan, workspacesOnPlan } from '../store/plans.ts'
import type { PlanChanges, PlanRow } from '../store/plans.ts'
import { audited } from './by.ts'
import { Mistake, parseName } from './mistake.ts'

/** Limits in messages; null: none. */
export type Plan = Omit<PlanRow, 'upgradeUrl'> & { readonly upgradeUrl?: string }

/** Of migration 0001; first workspaces have it, too. */
const plainPlan = 'unlimited'

/** To be called in a transaction: the plan is held until its end. */
export async function requirePlan(tx: Db, name: string, hold = keepPlan): Promise<void> {
  if (!(await hold(tx, name)))
    throw new Mistake(`There is no plan "${name}"; \`posthorn plan list\` shows them all.`, { field: 'plan' })
}

export async function setPlan(db: Db, name: string, changes: PlanChanges, mustBeNew = false): Promise<Plan> {
  const url = changes.upgradeUrl
  if (url !== undefined && url !== '' && !/^(?:\/(?![/\\])|https?:\/\/)[^\s]*$/.test(url))
    throw new Mistake('The upgrade URL must begin with http://, https:// or a slash; an empty one takes it away.', {
      field: 'upgradeUrl',
    })
  const parsed = parseName(name, 'plan')
  const saved = await savePlan(db, parsed, changes, mustBeNew)
  if (saved === undefined)
    throw new Mistake(`There is a plan "${parsed}" already.`, { code: 'conflict', field: 'name' })
  return presentPlan(saved)
}

export function setPlanAsOperator(
  { db }: { readonly db: Db },
  actor: string,
  name: string,
  changes: PlanChanges,
  mustBeNew = false,
): Promise<Plan> {
  return audited(
    db,
    { actor },
    'plan.changed',
    (tx) => setPlan(tx, name, changes, mustBeNew),
    (plan) => ({ target: plan.name, facts: changes }),
  )
}

/** For a plan that nothing has. */
export function removePlanAsOperator({ db }: { readonly db: Db }, actor: string, name: string): Promise<void> {
  return audited(
    db,
    { actor },
    'plan.removed',
    async (tx) => {
      await requirePlan(tx, name, lockPlan)
      if (name === plainPlan)
        throw new Mistake(`The plan "${name}" stays: a new workspace has it where no other is named.`, {
          code: 'conflict',
        })
      const users = await workspacesOnPlan(tx, name)
      if (users.length > 0) throw new Mistake(whoHas(name, users), { code: 'conflict' })
      await deletePlan(tx, name)
    },
    () => ({ target: name }),
  )
}

const namesShown = 10
function whoHas(plan: string, names: readonly string[]): string {
  const shown = names.slice(0, namesShown).map((name) => `"${name}"`)
  const more = names.length > namesShown ? ` and ${names.length - namesShown} more` : ''
  return `The plan "${plan}" stays, for ${names.length === 1 ? 'a workspace has' : `${names.length} workspaces have`} it: ${shown.join(', ')}${more}. \`posthorn workspace set ... --plan\` gives them another.`
}

export async function listPlans(db: Db): Promise<Plan[]> {
  return (await listPlanRows(db)).map(presentPlan)
}

function presentPlan({ upgradeUrl, ...row }: PlanRow): Plan {
  return { ...row, ...(upgradeUrl !== null && { upgradeUrl }) }
}
