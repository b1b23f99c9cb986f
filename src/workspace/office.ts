// What the management endpoints work with: the installation's parts that their acts need, handed to a face as one thing.
import type { Vault } from '../base/secret.ts'
import type { Route } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Refusal } from '../domain/refusal.ts'
import type { Standing } from '../domain/standing.ts'
import type { Accepted, AcceptedMail, MailSubmission, Submission } from '../domain/submission.ts'
import type { Db } from '../store/database.ts'
import type { DomainChecker } from './domain-check.ts'
import type { Live } from './live.ts'
import type { Notify } from './notices.ts'
import type { People } from './people.ts'

export interface Office {
  readonly db: Db
  readonly vault: Vault
  readonly hostname: string
  readonly publicUrl: string
  /** Where programs hand mail in over SMTP. */
  readonly submission: { readonly host: string; readonly port: number; readonly tlsPort: number }
  readonly people: People
  readonly notify: Notify
  /** POSTHORN_SYSTEM_MAILBOX: an id or an address. */
  readonly systemMailbox?: string | undefined
  /** POSTHORN_ROUTE: the way of all workspaces that have none of their own. */
  readonly route: Route
  readonly live: Live
  readonly domains: Pick<DomainChecker, 'check'>
  /** What is well and what is not, for operators. */
  readonly doctor: () => Promise<
    readonly { readonly name: string; readonly status: 'ok' | 'warn' | 'fail' | 'skipped'; readonly detail: string }[]
  >
  readonly accept: (submission: Submission) => Promise<Accepted | Refusal>
  /** A mail as it is: what came over SMTP, when it is sent again. */
  readonly acceptMail: (submission: MailSubmission) => Promise<AcceptedMail | Refusal>
  /** Whether a workspace may send at all; undefined where there is none. */
  readonly standing: (workspace: WorkspaceId) => Promise<Standing | undefined>
}
