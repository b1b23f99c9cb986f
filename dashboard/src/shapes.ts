// The shapes of the API, taken from the contract that the service validates with: types alone, nothing of it is loaded.
import type { Static } from 'typebox'
import type { credentials, SmtpCredential as SmtpCredentialShape } from '../../src/contract/management/credentials.ts'
import type { AuditEntry as AuditEntryShape } from '../../src/contract/management/audit.ts'
import type {
  ApiKey as ApiKeyShape,
  ApiKeyCreated as ApiKeyCreatedShape,
  ApiKeyRevoked as ApiKeyRevokedShape,
} from '../../src/contract/management/keys.ts'
import type {
  MessageContent as MessageContentShape,
  MessageListItem as MessageListItemShape,
  MessageTimeline as MessageTimelineShape,
  RefusedSubmission as RefusedSubmissionShape,
  TimelineAttempt as TimelineAttemptShape,
  TimelineEvent as TimelineEventShape,
} from '../../src/contract/management/mail.ts'
import type { members, Member as MemberShape } from '../../src/contract/management/members.ts'
import type {
  operators,
  OperatorWorkspace as OperatorWorkspaceShape,
  Plan as PlanShape,
} from '../../src/contract/management/operators.ts'
import type { OkOf } from '../../src/contract/management/managed.ts'
import type { Account as AccountShape, SessionInfo as SessionInfoShape } from '../../src/contract/management/people.ts'
import type {
  SandboxMail as SandboxMailShape,
  SandboxMailParsed as SandboxMailParsedShape,
} from '../../src/contract/management/sandbox.ts'
import type {
  Domain as DomainShape,
  Mailbox as MailboxShape,
  Workspace as WorkspaceShape,
} from '../../src/contract/management/senders.ts'
import type { Suppression as SuppressionShape } from '../../src/contract/management/suppressions.ts'
import type { Usage as UsageShape, UsageSeries as UsageSeriesShape } from '../../src/contract/management/usage.ts'
import type {
  WebhookEndpoint as WebhookEndpointShape,
  WebhookEventDetail as WebhookEventDetailShape,
  WebhookLogEntry as WebhookLogEntryShape,
} from '../../src/contract/management/webhooks.ts'
import type { FailReason, RetryReason, UnknownReason } from '../../src/domain/attempt.ts'
import type { BounceClass as BounceClassShape } from '../../src/domain/bounce-rules.ts'
import type { WebhookTrouble as WebhookTroubleShape } from '../../src/domain/webhook.ts'

/** Why an attempt ended without a yes: `facts.reason` of its event. */
export type EndReason = FailReason | RetryReason | UnknownReason
/** What a refusal was about: `bounce.class`. */
export type BounceClass = BounceClassShape
/** What kept a webhook from its receiver, where its answer does not say it. */
export type WebhookTrouble = WebhookTroubleShape
export type WebhookEndpoint = Static<typeof WebhookEndpointShape>
export type WebhookLogEntry = Static<typeof WebhookLogEntryShape>
export type WebhookEventDetail = Static<typeof WebhookEventDetailShape>
export type Account = Static<typeof AccountShape>
export type SessionInfo = Static<typeof SessionInfoShape>
export type MessageListItem = Static<typeof MessageListItemShape>
export type MessageContent = Static<typeof MessageContentShape>
export type MessageTimeline = Static<typeof MessageTimelineShape>
export type TimelineEvent = Static<typeof TimelineEventShape>
export type TimelineAttempt = Static<typeof TimelineAttemptShape>
export type Domain = Static<typeof DomainShape>
export type Mailbox = Static<typeof MailboxShape>
export type Workspace = Static<typeof WorkspaceShape>
export type ApiKey = Static<typeof ApiKeyShape>
export type ApiKeyCreated = Static<typeof ApiKeyCreatedShape>
export type ApiKeyRevoked = Static<typeof ApiKeyRevokedShape>
export type Suppression = Static<typeof SuppressionShape>
export type Member = Static<typeof MemberShape>
export type Invitations = OkOf<typeof members.listInvitations>
export type AuditEntry = Static<typeof AuditEntryShape>
export type SandboxMail = Static<typeof SandboxMailShape>
export type SandboxMailParsed = Static<typeof SandboxMailParsedShape>
export type Usage = Static<typeof UsageShape>
export type UsageSeries = Static<typeof UsageSeriesShape>
export type OperatorWorkspace = Static<typeof OperatorWorkspaceShape>
export type Plan = Static<typeof PlanShape>
export type RefusedSubmission = Static<typeof RefusedSubmissionShape>
export type SmtpCredential = Static<typeof SmtpCredentialShape>
export type SmtpCredentials = OkOf<typeof credentials.listCredentials>
export type SmtpCredentialCreated = OkOf<typeof credentials.createCredential>
export type UnmatchedFeedback = OkOf<typeof operators.listUnmatched>['items'][number]
export type UnmatchedFeedbackDetail = OkOf<typeof operators.readUnmatched>
export type Queue = OkOf<typeof operators.readQueue>
export type Examination = OkOf<typeof operators.examine>
export type Health = OkOf<typeof operators.readHealth>

export interface PageOf<Item> {
  readonly items: readonly Item[]
  readonly next?: string
}
export interface ListOf<Item> {
  readonly items: readonly Item[]
}
