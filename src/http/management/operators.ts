// What operators of the installation decide, and what they look at.
import { version } from '../../config.ts'
import { managementOperations as operations } from '../../contract/operations.ts'
import type { WorkspaceId } from '../../domain/message.ts'
import { refuse } from '../../domain/refusal.ts'
import { findUnmatchedFeedback, pageUnmatchedFeedback } from '../../feedback/feedback.ts'
import {
  changeWorkspaceAsOperator,
  createWorkspaceAsOperator,
  listPlans,
  pageWorkspaces,
  readAudit,
  readHealth,
  readQueue,
  setPlanAsOperator,
} from '../../workspace/workspace.ts'
import type { Holder } from '../../workspace/workspace.ts'
import type { ManagementRouter } from '../manage.ts'
import { pagingOf, presentPage } from './pages.ts'

export function operatorRoutes({ person, office }: ManagementRouter): void {
  person(operations.listWorkspaces, async ({ query }) => {
    const { text, ...paging } = pagingOf(query)
    return presentPage(await pageWorkspaces(office, { ...paging, ...(text && { text }) }))
  })
  person(operations.createWorkspace, ({ holder, body: { name, plan = 'unlimited' } }) =>
    createWorkspaceAsOperator(office, personOf(holder), name, plan),
  )
  person(operations.changeAnyWorkspace, ({ holder, path, body }) =>
    changeWorkspaceAsOperator(office, personOf(holder), path.workspaceId as WorkspaceId, body),
  )
  person(operations.listPlans, async () => ({ items: await listPlans(office.db) }))
  person(operations.setPlan, ({ holder, path, body: { mustBeNew, ...changes } }) =>
    setPlanAsOperator(office, personOf(holder), path.planName, changes, mustBeNew),
  )
  person(operations.readQueue, () => readQueue(office.db))
  person(operations.listUnmatched, async ({ query }) => {
    const { before, most } = pagingOf(query)
    const { items, ...more } = await pageUnmatchedFeedback(office.db, most, before)
    return presentPage({ items: items.map(presentUnmatched), ...more })
  })
  person(operations.readUnmatched, async ({ path }) => {
    const found = await findUnmatchedFeedback(office.db, path.feedbackId)
    if (found === undefined) return refuse('not_found', 'There is no such feedback; it is kept 30 days.')
    const { facts, content } = found
    return { ...presentUnmatched(found), facts: { ...facts }, content }
  })
  person(operations.readHealth, () => readHealth(office.db, version))
  person(operations.examine, async () => ({ checks: await office.doctor() }))
  person(operations.readInstallationAudit, async ({ query }) => {
    const { before, most } = pagingOf(query)
    return presentPage(await readAudit(office, undefined, before, most))
  })
}

const personOf = ({ userId }: Holder) => `user:${userId}`

type Unmatched = Awaited<ReturnType<typeof pageUnmatchedFeedback>>['items'][number]
const presentUnmatched = ({ id, receivedAt, reason, source, sender, addressee, sizeBytes }: Unmatched) => ({
  id,
  receivedAt,
  reason,
  source,
  sender,
  addressee,
  sizeBytes,
})
