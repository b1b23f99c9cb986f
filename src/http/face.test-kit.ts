// The face under test with small doors of its own: what is behind them is other rooms' work. Every door can be
// replaced.
import type { InjectOptions } from 'fastify'
import { silentLog } from '../base/log.ts'
import type { Log } from '../base/log.ts'
import type { MailboxId, MessageId, WorkspaceId } from '../domain/message.ts'
import type { MessageRecord, Principal, Submission } from '../domain/submission.ts'
import { refuse, type RefusalCode } from '../domain/refusal.ts'
import type { Office } from '../workspace/office.ts'
import type { HttpDoors, WebhookDoors } from './face.ts'
import { buildApp } from './app.ts'
import type { HttpOptions } from './app.ts'

export const workspaceId = '0199f1c2-0000-7000-8000-00000000000a' as WorkspaceId
export const mailboxId = '0199f1c2-0000-7000-8000-00000000000b' as MailboxId
export const messageId = '0199f1c2-0000-7000-8000-00000000000c' as MessageId
export const goodKey = `ph_${'k'.repeat(43)}`

export const principal: Principal = {
  actor: 'key:key-1',
  keyId: 'key-1',
  workspaceId,
  scopes: new Set(['mail.send', 'mail.status.read', 'webhooks.read', 'webhooks.write']),
  blocked: false,
  apiSending: true,
}

const noEndpoint = () => Promise.resolve(refuse('not_found', 'The workspace has no webhook endpoint.'))
/** A workspace without an endpoint. */
const closedWebhooks: WebhookDoors = {
  show: noEndpoint,
  set: noEndpoint,
  enable: noEndpoint,
  disable: noEndpoint,
  rotate: noEndpoint,
  promote: noEndpoint,
  test: noEndpoint,
  log: noEndpoint,
  event: noEndpoint,
  replayEvent: noEndpoint,
  replayRange: noEndpoint,
}

/** Nobody signs in at this face: who asks has a key. */
const closedOffice = { live: {}, people: {} } as Office

/** Thrown by a door: the database cannot be reached. */
export class Away extends Error {}

export function recordOf(submission: Submission): MessageRecord {
  const { metadata, expiresAt } = submission
  return {
    id: messageId,
    workspaceId: submission.workspaceId,
    mailboxId: submission.mailboxId,
    status: 'queued',
    deliveryStatus: 'pending',
    sender: 'shop@example.org',
    recipient: submission.recipient.text,
    subject: submission.subject,
    bodyText: submission.bodyText,
    createdAt: new Date('2026-11-21T09:30:00.123Z'),
    ...(metadata && { metadata }),
    ...(expiresAt && { expiresAt }),
  }
}

/** What reached `accept`, in order. */
export interface Seen {
  readonly submissions: Submission[]
  readonly logged: { readonly verb: string; readonly facts: Readonly<Record<string, unknown>> }[]
}

export function optionsWith(doors: Partial<HttpDoors> = {}): HttpOptions & Seen {
  const submissions: Submission[] = []
  const logged: Seen['logged'] = []
  const noted =
    (verb: string) =>
    (facts: Readonly<Record<string, unknown>>): void =>
      void logged.push({ verb, facts })
  const log: Log = {
    ...silentLog,
    accepted: noted('accepted'),
    refused: noted('refused'),
    fault: (what, error, facts) => noted('fault')({ what, error, ...facts }),
  }
  return {
    submissions,
    logged,
    log,
    trustProxy: [],
    dashboard: () => undefined,
    publicUrl: 'http://localhost:3000',
    office: closedOffice,
    isDatabaseAway: (error) => error instanceof Away,
    doors: {
      authenticate: (secret) => Promise.resolve(secret === goodKey ? principal : undefined),
      accept: (submission) => {
        submissions.push(submission)
        return Promise.resolve({ message: recordOf(submission), replayed: false, quota: [] })
      },
      readStatus: () => Promise.resolve(undefined),
      noteRefused: () => undefined,
      quota: () => Promise.resolve([]),
      webhooks: closedWebhooks,
      catchUp: () => Promise.resolve({ events: [], next: 'start', more: false }),
      ready: () => Promise.resolve({ ready: true, detail: { database: 'ok' } }),
      ...doors,
    },
  }
}

/** An app whose doors are as given, and what they saw. */
export function appWith(doors: Partial<HttpDoors> = {}) {
  const options = optionsWith(doors)
  return { app: buildApp(options), seen: options as Seen }
}

export const validBody = {
  mailboxId,
  recipient: 'ada@example.com',
  subject: 'Your receipt',
  bodyText: 'Thank you.\n',
} as const

/** An `inject` call for a send request. A string or a buffer goes as it is. */
export function sending(body: unknown = validBody, headers: Record<string, string> = {}) {
  return {
    method: 'POST' as const,
    url: '/api/v1/send',
    headers: { authorization: `Bearer ${goodKey}`, 'content-type': 'application/json', ...headers },
    payload: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
  }
}

/** An `inject` call for the status of a message. */
export const reading = (id: string = messageId, headers: Record<string, string> = {}): InjectOptions => ({
  method: 'GET',
  url: `/api/v1/messages/${id}`,
  headers: { authorization: `Bearer ${goodKey}`, ...headers },
})

/** Doors behind which the caller is so. */
export const as = (change: Partial<Principal>): Partial<HttpDoors> => ({
  authenticate: () => Promise.resolve({ ...principal, ...change }),
})

/** Doors that refuse a message with this code. */
export const answering = (code: RefusalCode, more: Partial<Parameters<typeof refuse>[2]> = {}): Partial<HttpDoors> => ({
  accept: () => Promise.resolve(refuse(code, 'A plain sentence.', more)),
})
