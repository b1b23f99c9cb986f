// The webhook endpoint: where events are posted, its secret, and what became of each event.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { RotateCw, Webhook as WebhookIcon } from 'lucide-react'
import { useEffect, useState } from 'react'
import { ApiError, ask, useChange, useForgetting, withQuery } from '../api.ts'
import { serviceNow } from '../clock.ts'
import { PagedTable } from '../list.tsx'
import { Filters, setIn, useTyped } from '../search.tsx'
import { narrowed, readWebhookFilter, type WebhookFilter } from '../filters.ts'
import { useMay } from '../session.tsx'
import type { WebhookEndpoint, WebhookLogEntry } from '../shapes.ts'
import { isId } from '../typed.ts'
import { Badge, StateBadge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { CopyLine, Id } from '../ui/copy.tsx'
import { Confirm, Dialog, DialogForm } from '../ui/dialog.tsx'
import { Check, Checks, Choice, Done, FormMistake, mistakeIn, TextField, textIn } from '../ui/field.tsx'
import { Card, Facts, Page } from '../ui/page.tsx'
import { ShownOnce } from '../ui/shown-once.tsx'
import { Answered, Empty } from '../ui/states.tsx'
import { exactly, Time } from '../ui/time.tsx'
import { Receivers } from './receivers.tsx'
import { EventDialog, logStates } from './webhook-event.tsx'
import { disableReasons, useEndpoint, WebhookTrouble } from './webhook-trouble.tsx'

const types = [
  'message.queued',
  'message.sending',
  'message.sent',
  'message.retrying',
  'message.delivered',
  'message.soft_bounced',
  'message.hard_bounced',
  'message.complained',
  'message.failed',
  'message.delivery_unknown',
] as const

const aboutReceivers =
  'Each is whole: it checks the signature, does nothing twice, and answers. Give it the signing secret, which you see when you set the endpoint, as WEBHOOK_SECRET; “handle” is where your work goes.'

export function WebhookPage() {
  const query = useEndpoint()
  const mayWrite = useMay('webhooks.write')
  const [setting, setSetting] = useState(false)
  return (
    <Page
      title="Webhook"
      about="Posthorn posts an event to your server whenever a message changes."
      actions={
        mayWrite &&
        query.data !== undefined && (
          <Button look={query.data === null ? 'primary' : 'plain'} onClick={() => setSetting(true)}>
            {query.data === null ? 'Set the endpoint' : 'Change'}
          </Button>
        )
      }
    >
      <Answered query={query}>
        {(endpoint) => (
          <>
            <WebhookTrouble endpoint={endpoint} />
            {endpoint === null ? (
              <>
                <Card flush>
                  <Empty icon={WebhookIcon} title="No endpoint yet.">
                    Name a public HTTPS address of yours, where a receiver answers.
                  </Empty>
                </Card>
                <Card title="Receivers to copy" about={aboutReceivers}>
                  <Receivers />
                </Card>
              </>
            ) : (
              <Endpoint endpoint={endpoint} />
            )}
            <Log isActive={endpoint?.state === 'active'} />
            {setting && <SetEndpoint endpoint={endpoint} done={() => setSetting(false)} />}
          </>
        )}
      </Answered>
    </Page>
  )
}

function Endpoint({ endpoint }: { readonly endpoint: WebhookEndpoint }) {
  const mayWrite = useMay('webhooks.write')
  /** With the version that was seen when it was asked for: who promotes means the secret that was prepared by then. */
  const [asking, setAsking] = useState<{ readonly what: 'rotate' | 'promote'; readonly version: number }>()
  const askFor = (what: 'rotate' | 'promote') => setAsking({ what, version: endpoint.version })
  const [secret, setSecret] = useState<string>()
  const act = useChange(
    (what: 'enable' | 'disable' | 'test') => ask('POST', `/api/v1/webhook/${what}`),
    ['webhook', 'webhook-log'],
  )
  const rotate = useChange(
    ({ what, version }: NonNullable<typeof asking>) =>
      ask<WebhookEndpoint>('POST', withQuery(`/api/v1/webhook/${what}`, { version })),
    ['webhook'],
    (answer) => {
      setAsking(undefined)
      setSecret(answer.secret)
    },
  )
  const rows: (readonly [string, React.ReactNode])[] = [
    [
      'Address',
      <code key="url" className="font-mono text-xs break-all">
        {endpoint.url}
      </code>,
    ],
    ['Events', endpoint.events === undefined ? 'All' : endpoint.events.join(', ')],
    ['API version', endpoint.apiVersion],
    ['Since', <Time key="since" at={endpoint.createdAt} />],
  ]
  if (endpoint.failingSince !== undefined)
    rows.push(['Failing since', <Time key="failing" at={endpoint.failingSince} />])
  return (
    <Card
      title="Endpoint"
      actions={
        mayWrite && (
          <>
            <Button
              busy={act.isPending && act.variables === 'test'}
              disabled={endpoint.state === 'disabled'}
              onClick={() => act.mutate('test')}
            >
              Send a test event
            </Button>
            <Button
              look="quiet"
              busy={act.isPending && act.variables !== 'test'}
              onClick={() => act.mutate(endpoint.state === 'active' ? 'disable' : 'enable')}
            >
              {endpoint.state === 'active' ? 'Disable' : 'Enable'}
            </Button>
          </>
        )
      }
    >
      <div className="grid gap-4">
        <div className="flex flex-wrap items-center gap-2">
          <StateBadge
            state={endpoint.state === 'active' && endpoint.failingSince !== undefined ? 'failing' : endpoint.state}
          />
          {endpoint.reason !== undefined && (
            <span className="text-sm text-soft">
              {disableReasons[endpoint.reason]} What happens meanwhile is kept, and not posted by itself later: when it
              is enabled, send it again in the log.
            </span>
          )}
          {endpoint.state === 'active' && act.isSuccess && act.variables === 'enable' && (
            <Done>Events are posted from now on. “Post again…” in the log posts those that happened meanwhile.</Done>
          )}
        </div>
        <FormMistake error={act.error} />
        <Facts rows={rows} />
        <div className="grid gap-2 border-t border-line pt-4">
          <h3 className="text-sm font-medium">Signing secret</h3>
          {endpoint.rotating ? (
            <p className="text-sm text-soft">
              A new secret is prepared and signs beside the old one. Promote it when your receiver knows it.
            </p>
          ) : (
            <p className="text-sm text-soft">
              It was shown once. Changing it takes two steps, so that no event is refused in between.
              {endpoint.previousUntil !== undefined && (
                <> The one before still signs along until {exactly(new Date(endpoint.previousUntil))}.</>
              )}
            </p>
          )}
          {mayWrite && (
            <div className="flex gap-2">
              <Button onClick={() => askFor('rotate')}>Prepare a new secret…</Button>
              {endpoint.rotating && (
                <Button look="primary" onClick={() => askFor('promote')}>
                  Promote it…
                </Button>
              )}
            </div>
          )}
        </div>
        <details className="border-t border-line pt-4 text-sm">
          <summary className="text-soft">Receivers to copy</summary>
          <div className="mt-2">
            <Receivers />
          </div>
        </details>
      </div>
      <Confirm
        title={asking?.what === 'promote' ? 'Let the new secret sign?' : 'Prepare a new secret?'}
        action={asking?.what === 'promote' ? 'Promote' : 'Prepare'}
        of={asking}
        close={() => setAsking(undefined)}
        by={rotate}
        onConfirm={rotate.mutate}
      >
        {asking?.what === 'promote'
          ? 'Your receiver must know the new secret by now. The old one’s signature is sent along for 24 hours.'
          : `You see it once. The old one still signs until you promote the new one.${endpoint.rotating ? ' It takes the place of the one that is prepared already, which then signs nothing.' : ''}`}
      </Confirm>
      <SecretDialog secret={secret} done={() => setSecret(undefined)} />
    </Card>
  )
}

function SecretDialog({ secret, done }: { readonly secret: string | undefined; readonly done: () => void }) {
  return (
    <Dialog
      title="The signing secret"
      description="Give it to your receiver now. It is shown this once."
      open={secret !== undefined}
      onOpenChange={done}
    >
      <ShownOnce close={done}>
        <CopyLine text={secret ?? ''} secret />
      </ShownOnce>
    </Dialog>
  )
}

function SetEndpoint({ endpoint, done }: { readonly endpoint: WebhookEndpoint | null; readonly done: () => void }) {
  const [secret, setSecret] = useState<string>()
  const [all, setAll] = useState(endpoint?.events === undefined)
  /** What is filled in was made of this one; of another by now, once that was said: who saves it all the same means it. */
  const [seen, see] = useState(endpoint)
  const save = useChange(
    (given: { url: string; events: string[] | null }) =>
      ask<WebhookEndpoint>('PUT', '/api/v1/webhook', { ...given, version: seen?.version ?? 0 }),
    ['webhook'],
    (answer) => (answer.secret === undefined ? done() : setSecret(answer.secret)),
  )
  const isOutrun = save.error instanceof ApiError && save.error.status === 409
  useEffect(() => {
    if (isOutrun) see(endpoint)
  }, [isOutrun, endpoint])
  if (secret !== undefined) return <SecretDialog secret={secret} done={done} />
  return (
    <Dialog title={endpoint === null ? 'Set the endpoint' : 'Change the endpoint'} open onOpenChange={done}>
      <DialogForm
        action="Save"
        by={save}
        fields={['url', 'events']}
        onSubmit={(form) =>
          save.mutate({ url: textIn(form, 'url').trim(), events: all ? null : form.getAll('event').map(String) })
        }
      >
        <TextField
          label="Address"
          name="url"
          type="url"
          required
          placeholder="https://app.example.com/hooks/posthorn"
          defaultValue={endpoint?.url}
          hint={
            isOutrun && seen !== null
              ? `It is ${seen.url} now, for ${seen.events?.join(', ') ?? 'all events'}.`
              : 'Public HTTPS. A new address keeps the secret.'
          }
          mistake={mistakeIn(save.error, 'url')}
        />
        <Checks legend="Events" chosen={save.variables?.events} mistake={mistakeIn(save.error, 'events')}>
          <Check
            label="All of them, also new ones to come"
            checked={all}
            onChange={(event) => setAll(event.target.checked)}
          />
          {!all && (
            <div className="grid gap-1.5 sm:grid-cols-2">
              {types.map((type) => (
                <Check
                  key={type}
                  label={type}
                  name="event"
                  value={type}
                  defaultChecked={endpoint?.events?.includes(type) ?? false}
                />
              ))}
            </div>
          )}
        </Checks>
      </DialogForm>
    </Dialog>
  )
}

function Log({ isActive }: { readonly isActive: boolean }) {
  const [shown, setShown] = useState<string>()
  const filter = readWebhookFilter(useSearch({ from: '/inside/webhook' }))
  const mayWrite = useMay('webhooks.write')
  return (
    <Card
      title="Log"
      about="The events that are kept, and where each stands, those of the latest message first."
      flush
      actions={mayWrite && isActive && <Replay />}
    >
      <LogSearch filter={filter} />
      <PagedTable<WebhookLogEntry>
        name="webhook-log"
        path="/api/v1/webhook/events"
        query={{ ...filter, limit: 50 }}
        member="events"
        cursor="after"
        label="Log of webhook events"
        keyOf={({ id }) => id}
        refreshMs={2_000}
        columns={[
          {
            head: 'Event',
            leads: true,
            cell: ({ id, type }) => (
              <button
                type="button"
                className="font-mono text-xs font-medium hover:underline"
                onClick={() => setShown(id)}
              >
                {type}
              </button>
            ),
          },
          {
            head: 'Message',
            cell: ({ messageId, recipient, subject }) =>
              messageId === undefined ? null : (
                <span className="grid">
                  <Link
                    to="/messages/$messageId"
                    params={{ messageId }}
                    title={recipient}
                    className="truncate hover:underline max-md:text-accent max-md:underline"
                  >
                    {recipient ?? 'The message'}
                  </Link>
                  {subject !== undefined && (
                    <span dir="auto" title={subject} className="truncate text-left text-xs text-soft">
                      {subject}
                    </span>
                  )}
                </span>
              ),
            wideOnly: true,
          },
          {
            head: 'State',
            cell: ({ state, nextAttemptAt }) => {
              const { tone, icon, word } = logStates[state]
              return (
                <span className="flex flex-wrap items-center gap-x-2">
                  <Badge tone={tone} icon={icon}>
                    {word}
                  </Badge>
                  {nextAttemptAt !== undefined && Date.parse(nextAttemptAt) > serviceNow() && (
                    <span className="text-xs text-soft">
                      next <Time at={nextAttemptAt} />
                    </span>
                  )}
                </span>
              )
            },
          },
          { head: 'Id', cell: ({ id }) => <Id id={id} short />, wideOnly: true },
          { head: 'When', cell: ({ createdAt }) => <Time at={createdAt} />, align: 'right', wideOnly: true },
        ]}

        empty={
          <Empty
            icon={WebhookIcon}
            title={Object.keys(filter).length === 0 ? 'No event yet.' : 'No such event was found.'}
          />
        }
      />
      {shown !== undefined && (
        <EventDialog id={shown} mayReplay={mayWrite && isActive} done={() => setShown(undefined)} />
      )}
    </Card>
  )
}

const isIdOrNothing = (text: string): boolean => text === '' || isId(text)

/** What is told late about an old message stands with that message, far down: it is found by its state, its type or its message. */
function LogSearch({ filter }: { readonly filter: WebhookFilter }) {
  const navigate = useNavigate()
  const change = (changes: WebhookFilter) =>
    void navigate({ to: '/webhook', search: narrowed<WebhookFilter>(filter, changes), resetScroll: false })
  const [typed, setTyped] = useTyped('messageId', filter.messageId, (text) => {
    if (isIdOrNothing(text.trim())) change({ messageId: text.trim() })
  })
  return (
    <div role="search" className="grid gap-3 border-b border-line px-4 pb-4 sm:px-5">
      <Filters set={setIn(filter)} className="sm:grid-cols-2 lg:grid-cols-3">
        <Choice
          label="State"
          options={[['', 'Any'], ...Object.entries(logStates).map(([name, { word }]) => [name, word] as const)]}
          value={filter.state ?? ''}
          onChange={(event) => change({ state: event.target.value })}
        />
        <Choice
          label="Event"
          options={[['', 'Any'], ...[...types, 'webhook.test'].map((type) => [type, type] as const)]}
          value={filter.type ?? ''}
          onChange={(event) => change({ type: event.target.value })}
        />
        <div className="sm:max-lg:col-span-2">
          <TextField
            label="Message"
            type="search"
            placeholder="Its id"
            value={typed}
            onChange={({ target }) => setTyped(target.value)}
            mistake={isIdOrNothing(typed.trim()) ? undefined : 'This is no id of a message.'}
          />
        </div>
      </Filters>
    </div>
  )
}

/** Everything of a time that did not get through, once more. */
function Replay() {
  const [open, setOpen] = useState(false)
  const replay = useChange(
    (hours: number) =>
      ask<{ replayed: number }>('POST', '/api/v1/webhook/replay', {
        from: new Date(serviceNow() - hours * 3_600_000).toISOString(),
        // Not this very moment: by a clock that is seconds behind it would leave out what has just happened.
        to: new Date(serviceNow() + 3_600_000).toISOString(),
        undelivered: true,
      }),
    ['webhook-log'],
  )
  useForgetting(open, replay)
  return (
    <>
      <Button icon={<RotateCw aria-hidden className="size-4" />} onClick={() => setOpen(true)}>
        Post again…
      </Button>
      <Dialog
        title="Post undelivered events again"
        description="To your receiver; no mail is sent again. Also those that wait for their next try. Same ids, same bytes, eight new tries each."
        open={open}
        onOpenChange={setOpen}
      >
        <DialogForm
          action="Post again"
          by={replay}
          cancel="Close"
          onSubmit={(form) => replay.mutate(Number(textIn(form, 'hours')))}
        >
          <TextField
            label="Of the last hours"
            name="hours"
            type="number"
            min={1}
            max={720}
            required
            defaultValue={24}
          />
          {replay.data !== undefined && (
            <p role="status" className="text-sm text-good">
              {replay.data.replayed === 1
                ? '1 event is on its way.'
                : `${replay.data.replayed} events are on their way.`}
            </p>
          )}
        </DialogForm>
      </Dialog>
    </>
  )
}
