// Whether a workspace may send at all, whoever asks for it: over HTTP or SMTP, at the dashboard, or at the keyboard of the machine.
import { refuse, type Refusal } from './refusal.ts'

export interface Standing {
  readonly blocked: boolean
  /** The plan's. */
  readonly apiSending: boolean
  readonly upgradeUrl?: string
}

export const workspaceBlocked = refuse(
  'workspace_blocked',
  'This workspace is blocked and cannot send; ask the operator of this service.',
)

/** Blocked, or on a plan without sending. */
export function mayNotSend({ blocked, apiSending, upgradeUrl }: Standing): Refusal | undefined {
  if (blocked) return workspaceBlocked
  if (apiSending) return undefined
  return refuse(
    'upgrade_required',
    'The plan of this workspace does not include sending; upgrade it.',
    upgradeUrl === undefined ? {} : { upgradeUrl },
  )
}
