// `posthorn webhook`.
import { InvalidArgumentError, Option, type Command } from 'commander'
import { webhookEventTypeNames, webhookStates } from '../contract/words.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { isRefusal, type Refusal } from '../domain/refusal.ts'
import {
  webhookTroubles,
  type WebhookEndpointWithSecret,
  type WebhookLogEntry,
  type WebhookLogFilter,
} from '../domain/webhook.ts'
import { databaseNow, type Db } from '../store/database.ts'
import type { WebhookDesk } from '../webhooks/webhooks.ts'
import { Mistake } from '../workspace/workspace.ts'
import { idOf, instant, commandsOf } from './arguments.ts'
import { asWord, facts, table } from './print.ts'
import type { Cli } from './tools.ts'

interface Replay {
  readonly event?: string
  readonly from?: Date
  readonly to?: Date
  readonly undelivered: boolean
}

interface LogWish extends Pick<WebhookLogFilter, 'state' | 'type'> {
  readonly event?: string
  readonly message?: string
  readonly limit: number
}

const once = 'This secret is shown once: store it now, with the receiver.'

export function webhookCommands(program: Command, cli: Cli): void {
  const { ofWorkspace } = commandsOf(program, 'webhook', 'where events of a workspace are posted')
  /** Runs with the endpoint's desk; a refusal becomes the error of the command. */
  const at = (
    workspace: string,
    work: (webhooks: WebhookDesk, id: WorkspaceId, actor: string, db: Db) => Promise<void>,
  ): Promise<void> =>
    cli.inWorkspace(workspace, ({ db, webhooks }, { workspaceId, actor }) => work(webhooks, workspaceId, actor, db))
  const show = (answer: WebhookEndpointWithSecret | Refusal): void => {
    const endpoint = allowed(answer)
    const secret = endpoint.secret === undefined ? '' : `\nsecret: ${endpoint.secret}\n\n${once}`
    cli.show(endpoint, () => `${describe(endpoint)}${secret}`)
  }

  ofWorkspace('set', 'set the endpoint: the first time this makes it, and shows its secret')
    .requiredOption('--url <url>', 'public HTTPS, such as https://example.com/posthorn')
    .option('--events <types>', 'comma list of event types, or all', types)
    .action((workspace: string, { url, events }: { url: string; events?: readonly string[] | 'all' }) =>
      at(workspace, async (webhooks, id, actor) =>
        show(
          await webhooks.set(
            id,
            { url, ...(events !== undefined && { events: events === 'all' ? null : events }) },
            actor,
          ),
        ),
      ),
    )
  ofWorkspace('show', 'show the endpoint').action((workspace: string) =>
    at(workspace, async (webhooks, id) => show(await webhooks.show(id))),
  )
  ofWorkspace('enable', 'post events again, from now on').action((workspace: string) =>
    at(workspace, async (webhooks, id, actor) => show(await webhooks.enable(id, actor))),
  )
  ofWorkspace('disable', 'post nothing; events are kept').action((workspace: string) =>
    at(workspace, async (webhooks, id, actor) => show(await webhooks.disable(id, actor))),
  )
  ofWorkspace('rotate', 'prepare a new secret and show it; the old one still signs').action((workspace: string) =>
    at(workspace, async (webhooks, id, actor) => show(await webhooks.rotate(id, actor))),
  )
  ofWorkspace('promote', 'let the new secret sign; the old one signs beside it for 24 hours').action(
    (workspace: string) => at(workspace, async (webhooks, id, actor) => show(await webhooks.promote(id, actor))),
  )
  ofWorkspace('test', 'post a test event').action((workspace: string) =>
    at(workspace, async (webhooks, id, actor) => {
      const { eventId } = allowed(await webhooks.test(id, actor))
      cli.show(
        { eventId },
        () =>
          `The test event ${eventId} is on its way; \`posthorn webhook log ${asWord(workspace)}\` shows what became of it.`,
      )
    }),
  )
  ofWorkspace('log', 'show the latest events and where each stands; with --event, every try at one')
    .option('--event <id>', 'the id of an event')
    .addOption(new Option('--state <state>', 'only what stands so').choices(webhookStates))
    .addOption(new Option('--type <type>', 'only events of this type').choices(webhookEventTypeNames))
    .option('--message <id>', 'only the events of this message', idOf('message'))
    .option('--limit <count>', 'how many', count, 50)
    .action((workspace: string, { event, limit, message, ...wanted }: LogWish, command: Command) => {
      const filter = { ...wanted, ...(message !== undefined && { messageId: message }) }
      const isFiltered = Object.keys(filter).length > 0
      if (event !== undefined && isFiltered)
        command.error('error: --state, --type and --message choose among events: with --event there is one')
      return at(workspace, async (webhooks, id) => {
        if (event !== undefined) {
          const detail = allowed(await webhooks.event(id, event.toLowerCase()))
          const tries = () =>
            detail.attempts.map((each) => [
              each.endedAt,
              each.round,
              each.attempt,
              each.status,
              each.trouble === undefined ? undefined : webhookTroubles[each.trouble],
              each.durationMs,
            ])
          cli.show(detail, () =>
            [
              facts({
                id: detail.id,
                type: detail.type,
                message: detail.messageId,
                state: detail.state,
                next: detail.nextAttemptAt,
              }),
              table(['ENDED', 'ROUND', 'TRY', 'STATUS', 'TROUBLE', 'MS'], tries(), 'It was not tried yet.'),
            ].join('\n\n'),
          )
          return
        }
        const items = await entries(webhooks, id, filter, limit)
        const rows = () =>
          items.map((each) => [each.id, each.type, each.messageId, each.createdAt, each.state, each.nextAttemptAt])
        const heads = ['EVENT', 'TYPE', 'MESSAGE', 'AT', 'STATE', 'NEXT TRY']
        const none = isFiltered ? 'There is no such event.' : 'There are no events yet.'
        cli.show(items, () => table(heads, rows(), none, limit))
      })
    })
  ofWorkspace(
    'replay',
    'send an event again, or of a time all that the endpoint wants: same ids, same bytes, eight tries',
  )
    .option('--event <id>', 'the id of one event')
    .option('--from <time>', 'from this time on, such as 2027-01-31T00:00:00Z', instant)
    .option('--to <time>', 'up to this time; now, where it is left out', instant)
    .option('--undelivered', 'of the time, only what was never delivered, also what waits for its next try', false)
    .action((workspace: string, wish: Replay, command: Command) => {
      if ((wish.event === undefined) === (wish.from === undefined))
        command.error('error: give either --event, or --from and perhaps --to')
      // One that was delivered would be posted again, though only what was not was asked for.
      if (wish.event !== undefined && (wish.to !== undefined || wish.undelivered))
        command.error('error: --to and --undelivered belong to --from: one --event is sent again whatever became of it')
      return at(workspace, async (webhooks, id, actor, db) => {
        const answer =
          wish.event === undefined
            ? await webhooks.replayRange(
                id,
                {
                  from: wish.from ?? new Date(),
                  to: wish.to ?? (await databaseNow(db)),
                  undelivered: wish.undelivered,
                },
                actor,
              )
            : await webhooks.replayEvent(id, wish.event.toLowerCase(), actor)
        const { replayed } = allowed(answer)
        cli.show({ replayed }, () => `${replayed} ${replayed === 1 ? 'event is' : 'events are'} on the way again.`)
      })
    })
}

/** A page of a search may be empty and not the last. */
async function entries(webhooks: WebhookDesk, id: WorkspaceId, filter: WebhookLogFilter, limit: number) {
  const items: WebhookLogEntry[] = []
  for (let after: string | undefined; ;) {
    const page = allowed(await webhooks.log(id, after, limit - items.length, filter))
    items.push(...page.items)
    if (page.next === undefined || items.length >= limit) return items
    after = page.next
  }
}

function allowed<T extends object>(answer: T | Refusal): T {
  if (isRefusal(answer)) throw new Mistake(answer.words)
  return answer
}

function types(text: string): readonly string[] | 'all' {
  return text === 'all' ? text : text.split(',').map((each) => each.trim())
}

function count(text: string): number {
  if (!/^[1-9]\d{0,2}$/.test(text) || Number(text) > 500)
    throw new InvalidArgumentError('It must be a number from 1 to 500.')
  return Number(text)
}

function describe(endpoint: WebhookEndpointWithSecret): string {
  return facts({
    url: endpoint.url,
    events: endpoint.events?.join(' ') ?? 'all',
    apiVersion: endpoint.apiVersion,
    state: endpoint.reason === undefined ? endpoint.state : `${endpoint.state} (${endpoint.reason})`,
    'disabled since': endpoint.disabledAt,
    'failing since': endpoint.failingSince,
    rotation: endpoint.rotating ? 'a new secret is prepared' : undefined,
    previous: endpoint.previousUntil,
    since: endpoint.createdAt,
  })
}
