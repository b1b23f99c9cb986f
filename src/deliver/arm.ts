// What an arm can say, and what that is in the facts of an attempt. Only a sure `armed` allows the dot (delivery-semantics, "arm").
import type { Trouble } from '../domain/attempt.ts'
import type { ArmAnswer as Recorded } from '../store/outbound.ts'

/** `failed` includes a commit whose end nobody knows. */
export type ArmAnswer = Recorded | 'failed'

/** An error leaves it open whether the arm was committed. */
export async function askToArm(mail: { arm(): Promise<ArmAnswer> }): Promise<ArmAnswer> {
  try {
    return await mail.arm()
  } catch {
    return 'failed'
  }
}

export const armTrouble = {
  lost: 'claim_lost',
  expired: 'expired',
  workspace_blocked: 'workspace_blocked',
  mailbox_not_active: 'mailbox_not_active',
  suppressed: 'suppressed',
  halted: 'shutdown',
  failed: 'arm_failed',
} as const satisfies Record<Exclude<ArmAnswer, 'armed'>, Trouble>
