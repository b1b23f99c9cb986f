// What the database says about work that waits, about domains and webhook endpoints, and about its last backup, as numbers for Prometheus. Every node that delivers tells the same, for the whole installation.
import type { Measured, Sample } from '../base/metrics.ts'
import type { Db } from '../store/database.ts'
import { countDomains } from '../store/domain-checks.ts'
import { readLastBackup } from '../store/last-backup.ts'
import { readQueueFacts, readWebhookQueueFacts } from '../store/queue-facts.ts'
import { countEndpoints, endpointStates } from '../store/webhook-endpoints.ts'

export const queueGauges = {
  posthorn_queue_messages: { help: 'Messages that are not final, by state; counted up to a million.', label: 'status' },
  posthorn_queue_oldest_due_seconds: { help: 'How long the oldest message that nobody has claimed is due.' },
  posthorn_webhook_queue_events: { help: 'Webhook events that wait for an active endpoint.' },
  posthorn_webhook_queue_oldest_due_seconds: { help: 'How long the oldest of them is due.' },
  posthorn_backup_age_seconds: {
    help: 'How old the last backup is that was noted; infinite where there was never one and mail is really sent.',
  },
  posthorn_domains: { help: 'Sending domains, by state.', label: 'status' },
  posthorn_webhook_endpoints: {
    help: 'Webhook endpoints, by state; failing (for an hour or more) and disabled_by_itself: since the last 7 days.',
    label: 'state',
  },
} as const satisfies Record<string, Measured>

/** `isReal`: whether mail leaves the machine; asked where there was never a backup. */
export async function queueSamples(db: Db, isReal: () => Promise<boolean>): Promise<readonly Sample[]> {
  const { byStatus, oldestDueSeconds } = await readQueueFacts(db)
  const webhooks = await readWebhookQueueFacts(db)
  const domains = await countDomains(db)
  const endpoints = await countEndpoints(db)
  const backup = (await readLastBackup(db))?.ageSeconds ?? ((await isReal()) ? Infinity : undefined)
  const many = new Map(byStatus.map((row) => [row.status, row.many]))
  const one = (name: keyof typeof queueGauges, value: number, label?: string): Sample => ({
    name,
    value,
    ...(label !== undefined && { label }),
  })
  return [
    ...(['queued', 'retrying', 'sending'] as const).map((status) =>
      one('posthorn_queue_messages', many.get(status) ?? 0, status),
    ),
    one('posthorn_queue_oldest_due_seconds', oldestDueSeconds),
    one('posthorn_webhook_queue_events', webhooks.many),
    one('posthorn_webhook_queue_oldest_due_seconds', webhooks.oldestDueSeconds),
    ...(backup === undefined ? [] : [one('posthorn_backup_age_seconds', backup)]),
    ...(['pending', 'verified', 'degraded', 'failed'] as const).map((status) =>
      one('posthorn_domains', domains.find((row) => row.status === status)?.many ?? 0, status),
    ),
    ...endpointStates.map((state) => one('posthorn_webhook_endpoints', endpoints.get(state)?.many ?? 0, state)),
  ]
}
