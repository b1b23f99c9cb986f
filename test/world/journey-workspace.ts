// A customer in a journey: a workspace with a verified domain, a mailbox and a key, made by the operator's commands, and the few things
// that a customer does over HTTP.
import { setTimeout as wait } from 'node:timers/promises'
import type { MessageDeliveryStatus, SendMessageRequest, SendMessageResponse } from '../../src/contract/message.ts'
import type { Posthorn } from './posthorn.ts'

export interface WorkspaceOptions {
  readonly name?: string
  /** Limits of a plan made for it; without, it has none. */
  readonly plan?: { readonly hourly?: number; readonly daily?: number; readonly monthly?: number }
  readonly domain?: string
  /** A route of its own. */
  readonly route?: string
  /** Of its key. Left out: it sends, and reads the status. */
  readonly scopes?: readonly string[]
}

export interface DnsRecord {
  readonly type: string
  readonly name: string
  readonly value: string
}

/** The body but what the workspace knows: any member can be given, also a wrong one. */
export type Sending = Partial<SendMessageRequest> & { readonly recipient: string }

export interface JourneyWorkspace {
  readonly id: string
  readonly name: string
  readonly mailboxId: string
  readonly address: string
  readonly key: string
  /** The DNS records that its domain asks for. */
  readonly records: readonly DnsRecord[]
  /** The whole request body for a message. */
  body(sending: Sending): SendMessageRequest
  send(sending: Sending, headers?: Readonly<Record<string, string>>, url?: string): Promise<Answer>
  /** The id of a message that was accepted; throws when it was not. */
  accepted(sending: Sending): Promise<string>
  status(id: string): Promise<MessageDeliveryStatus>
  /** Reads the status, as a client would, until it is as expected. */
  until(id: string, isSo: (status: MessageDeliveryStatus) => boolean, withinMs?: number): Promise<MessageDeliveryStatus>
  /** Until the processing state is final. */
  settled(id: string, withinMs?: number): Promise<MessageDeliveryStatus>
  /** The types of its events so far, in order. */
  events(id: string): Promise<string[]>
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: SendMessageResponse & { readonly error?: string; readonly code?: string; readonly field?: string }
}

let made = 0

export async function makeWorkspace(posthorn: Posthorn, options: WorkspaceOptions): Promise<JourneyWorkspace> {
  const name = options.name ?? `Shop ${++made}`
  const domain = options.domain ?? `shop${made}.example`
  const plan = options.plan === undefined ? 'unlimited' : `Plan of ${name}`
  const limits = Object.entries(options.plan ?? {}).flatMap(([window, limit]) => [`--${window}`, String(limit)])
  if (options.plan !== undefined) await posthorn.commands(['plan', 'set', plan, ...limits])
  const address = `post@${domain}`
  const { scopes: allowed = ['mail.send', 'mail.status.read'] } = options
  const scopes = allowed.flatMap((scope) => ['--scope', scope])
  const [{ id }, { records }, { key }, mailbox] = await posthorn.commands<
    [{ id: string }, { records: DnsRecord[] }, { key: string }, { id: string }]
  >(
    ['workspace', 'create', '--name', name, '--plan', plan],
    ['domain', 'add', '{id}', domain, '--verified'],
    ['key', 'create', '{id}', '--name', 'test', ...scopes],
    ['mailbox', 'add', '{id}', address, '--name', 'The Shop'],
  )
  if (options.route !== undefined) await posthorn.commands(['workspace', 'set', id, '--route', options.route])
  const authorization = { authorization: `Bearer ${key}` }

  const workspace: JourneyWorkspace = {
    id,
    name,
    mailboxId: mailbox.id,
    address,
    key,
    records,
    body: (sending) => ({ mailboxId: mailbox.id, subject: 'Your order', bodyText: 'Thank you.\n', ...sending }),
    send: async (sending, headers = {}, url = posthorn.url) => {
      const answer = await fetch(`${url}/api/v1/send`, {
        method: 'POST',
        headers: { ...authorization, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(workspace.body(sending)),
      })
      return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Answer['body'] }
    },
    accepted: async (sending) => {
      const { status, body } = await workspace.send(sending)
      if (status !== 202) throw new Error(`not accepted: ${status} ${JSON.stringify(body)}`)
      return body.id
    },
    status: async (id) => {
      const answer = await fetch(`${posthorn.url}/api/v1/messages/${id}`, { headers: authorization })
      if (answer.status !== 200) throw new Error(`no status: ${answer.status} ${await answer.text()}`)
      return (await answer.json()) as MessageDeliveryStatus
    },
    until: async (id, isSo, withinMs = 90_000) => {
      const deadline = Date.now() + withinMs
      for (let pauseMs = 10; ; pauseMs = Math.min(pauseMs * 1.5, 200)) {
        const status = await workspace.status(id)
        if (isSo(status)) return status
        if (Date.now() > deadline)
          throw new Error(
            `after ${withinMs} ms it is still: ${JSON.stringify(status)}\n${posthorn.said().slice(-4_000)}`,
          )
        await wait(pauseMs)
      }
    },
    settled: (id, withinMs) =>
      workspace.until(
        id,
        ({ processingStatus }) => ['sent', 'failed', 'delivery_unknown'].includes(processingStatus),
        withinMs,
      ),
    events: async (id) => {
      const { events } = await posthorn.cli<{ events: { type: string }[] }>('message', 'show', id)
      return events.map(({ type }) => type)
    },
  }
  return workspace
}
