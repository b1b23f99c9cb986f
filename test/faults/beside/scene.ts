// What goes on beside the load of a campaign while the nemesis strikes: small stories, each of one promise, each with workspaces of its own. A story is set
// up before the first fault, goes on with the load, and says at the end what was broken.
import { setTimeout as pause } from 'node:timers/promises'
import type { Chance } from '../../world/random.ts'
import type { DnsRecord, JourneyWorkspace } from '../../world/journey-workspace.ts'
import type { LedgerLine } from '../../world/receiver.ts'
import type { Told } from '../load.ts'
import type { Front, Opened, Opening, Stage } from '../stage.ts'

export interface Scene extends Pick<Stage, 'operator' | 'hook' | 'zone' | 'keys'> {
  /** The load's, with its webhook. */
  readonly shop: JourneyWorkspace
  readonly fronts: readonly Front[]
  /** Its own: what one story draws changes nothing for the others. */
  readonly chance: Chance
  /** Messages of the load. */
  readonly messages: number
  /** Resolves when this part of the load, from 0 up to 1, has come to an end; at 1 everybody is back, too. */
  readonly at: (part: number) => Promise<void>
  readonly open: (options?: Opening) => Promise<Opened>
  readonly query: AfterAll['query']
  /** Between two rounds of the nemesis: restarts one node after the other, as operators do, and every later start of a node has these settings, too. */
  readonly deploy: (settings: Readonly<Record<string, string>>) => Promise<void>
}

export interface AfterAll {
  readonly ledger: readonly LedgerLine[]
  readonly query: <Row extends object>(text: string) => Promise<Row[]>
}

export interface Beside {
  /** What it has handed in by a load of its own. */
  readonly told?: readonly Told[]
  /** Ids that it was told. */
  readonly accepted?: readonly string[]
  /** Records that mail may be signed by, besides. */
  readonly records?: readonly DnsRecord[]
  /** Whom it has suppressed: their mail may fail for that. */
  readonly suppressed?: ReadonlySet<string>
  /** Whom it has written to besides. */
  readonly recipients?: ReadonlySet<string>
  /** A workspace that is gone at the end. */
  readonly removed?: string
  readonly over: Promise<unknown>
  readonly breaches: (after: AfterAll) => Promise<readonly string[]>
}

export interface Asked {
  readonly status: number
  /** What is asked for here has these, each in its place. */
  readonly body: Partial<
    Readonly<Record<'id' | 'code' | 'processingStatus' | 'key' | 'username' | 'password' | 'secret', string>>
  > & {
    readonly records?: readonly DnsRecord[]
    readonly items?: readonly { readonly id: string }[]
  }
  readonly replayed: boolean
  /** How often it was asked: what was asked once and answered was done once. */
  readonly times: number
}

export interface Question {
  readonly key: string
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly body?: object
  readonly headers?: Readonly<Record<string, string>>
}

const answerMs = 7_000
const pauseMs = 100

/** As a patient program asks: at one node after the other, until one says yes or no. */
export async function askUntilAnswered(
  fronts: readonly Front[],
  { key, method = 'POST', path, body, headers = {} }: Question,
): Promise<Asked> {
  for (let times = 1; ; times++) {
    const answer = await fetch(`${fronts[times % fronts.length]?.url}/api/v1/${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(answerMs),
    })
      .then(async (response) => ({ response, text: await response.text() }))
      .catch(() => undefined)
    if (answer !== undefined && answer.response.status < 500) {
      const { status, headers: answered } = answer.response
      const said = (answer.text === '' ? {} : JSON.parse(answer.text)) as Asked['body']
      const replayed = answered.get('idempotent-replayed') === 'true'
      // 408: on a rough wire it came too slowly, and nothing of it was done.
      if (status !== 408 && said.code !== 'idempotency_in_progress') return { status, body: said, replayed, times }
    }
    await pause(pauseMs)
  }
}
