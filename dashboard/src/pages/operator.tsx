// For those who run the installation: workspaces, plans, the queue, health.
import { useNavigate, useSearch } from '@tanstack/react-router'
import { Activity, Building2, OctagonPause } from 'lucide-react'
import { useState } from 'react'
import { ask, useChange, useRead } from '../api.ts'
import { PagedTable } from '../list.tsx'
import { useTyped } from '../search.tsx'
import { narrowed, readWorkspaceFilter, type WorkspaceFilter } from '../filters.ts'
import type { Examination, Health, ListOf, OperatorWorkspace, Plan, Queue } from '../shapes.ts'
import { StateBadge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Id } from '../ui/copy.tsx'
import { Dialog, DialogForm } from '../ui/dialog.tsx'
import { Check, Choice, mistakeIn, TextField, textIn } from '../ui/field.tsx'
import { Notice } from '../ui/notice.tsx'
import { Card, Facts, Page } from '../ui/page.tsx'
import { Sentence } from '../ui/sentence.tsx'
import { Answered, Empty } from '../ui/states.tsx'
import { Long, Table } from '../ui/table.tsx'
import { exactly, Time } from '../ui/time.tsx'
import { AuditTable } from './audit.tsx'
import { Stops } from './delivery-stopped.tsx'
import { bytes } from '../ui/size.ts'

const usePlans = () => useRead<ListOf<Plan>>(['plans'], '/api/v1/operator/plans')

export function OperatorWorkspaces() {
  const filter = readWorkspaceFilter(useSearch({ from: '/inside/operator/workspaces' }))
  const navigate = useNavigate()
  const look = (typed: string) =>
    void navigate({ to: '/operator/workspaces', search: narrowed<WorkspaceFilter>({}, { text: typed }), replace: true })
  const [text, setText] = useTyped('text', filter.text, look)
  const [changing, setChanging] = useState<OperatorWorkspace>()
  const [making, setMaking] = useState(false)
  return (
    <Page
      title="Workspaces"
      about="Who may send, how much, and which way."
      actions={
        <Button look="primary" onClick={() => setMaking(true)}>
          Make a workspace
        </Button>
      }
    >
      <TextField
        label="Search"
        type="search"
        placeholder="Part of the name"
        maxLength={200}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <Card flush>
        <PagedTable<OperatorWorkspace>
          name="operator-workspaces"
          path="/api/v1/operator/workspaces"
          query={{ text: filter.text?.trim() }}
          label="Workspaces"
          keyOf={({ id }) => id}
          empty={
            <Empty icon={Building2} title={text.trim() === '' ? 'There is no workspace yet.' : 'Nothing was found.'} />
          }
          columns={[
            {
              head: 'Name',
              cell: ({ name, ownName }) => (
                <>
                  <span className="font-medium">{name}</span>
                  {ownName !== undefined && <div className="text-xs text-soft">its members say “{ownName}”</div>}
                </>
              ),
            },
            {
              head: 'State',
              cell: ({ status, removingSince }) => (
                <StateBadge state={removingSince === undefined ? status : 'removing'} />
              ),
            },
            { head: 'Plan', cell: ({ plan }) => plan },
            {
              head: 'Route',
              cell: ({ route }) => route ?? <span className="text-soft">the installation’s</span>,
              wideOnly: true,
            },
            { head: 'Id', cell: ({ id }) => <Id id={id} short />, wideOnly: true },
            {
              head: '',
              align: 'right',
              cell: (workspace) =>
                workspace.removingSince === undefined && (
                  <Button look="quiet" of={workspace.name} onClick={() => setChanging(workspace)}>
                    Change
                  </Button>
                ),
            },
          ]}
        />
      </Card>
      {changing !== undefined && <ChangeWorkspace workspace={changing} done={() => setChanging(undefined)} />}
      {making && <MakeWorkspace done={() => setMaking(false)} />}
    </Page>
  )
}

function MakeWorkspace({ done }: { readonly done: () => void }) {
  const plans = usePlans()
  const make = useChange(
    (given: { name: string; plan: string }) => ask('POST', '/api/v1/operator/workspaces', given),
    ['operator-workspaces', 'session'],
    done,
  )
  return (
    <Dialog
      title="Make a workspace"
      description="Nobody is in it yet: “posthorn user create --email … --workspace … --role owner” on the machine makes its first owner."
      open
      onOpenChange={done}
    >
      <DialogForm
        action="Make"
        by={make}
        fields={['name', 'plan']}
        onSubmit={(form) => make.mutate({ name: textIn(form, 'name').trim(), plan: textIn(form, 'plan') })}
      >
        <TextField label="Name" name="name" required mistake={mistakeIn(make.error, 'name')} />
        <Choice
          key={String(plans.isSuccess)}
          label="Plan"
          name="plan"
          options={(plans.data?.items ?? []).map(({ name }) => [name, name] as const)}
          // As everywhere where nothing is said; the first by the alphabet does not include sending.
          defaultValue="unlimited"
          mistake={mistakeIn(make.error, 'plan')}
        />
      </DialogForm>
    </Dialog>
  )
}

function ChangeWorkspace({ workspace, done }: { readonly workspace: OperatorWorkspace; readonly done: () => void }) {
  const plans = usePlans()
  const [status, setStatus] = useState<string>(workspace.status)
  const change = useChange(
    (given: Partial<Record<'name' | 'plan' | 'status' | 'route', string>>) =>
      ask('PATCH', `/api/v1/operator/workspaces/${workspace.id}`, given),
    ['operator-workspaces', 'session'],
    done,
  )
  return (
    <Dialog title={`Change “${workspace.name}”`} open onOpenChange={done}>
      <DialogForm
        action="Save"
        by={change}
        fields={['name', 'plan', 'route']}
        onSubmit={(form) => {
          const route = textIn(form, 'route').trim()
          const given = {
            name: textIn(form, 'name').trim(),
            plan: textIn(form, 'plan'),
            status: textIn(form, 'status'),
          }
          // The log of the workspace says what was changed, not what stayed.
          const changed = Object.entries(given).filter(
            ([field, value]) => value !== workspace[field as keyof typeof given],
          )
          if (route !== '') changed.push(['route', route])
          if (changed.length === 0) done()
          else change.mutate(Object.fromEntries(changed))
        }}
      >
        <TextField
          label="Name"
          name="name"
          required
          maxLength={200}
          defaultValue={workspace.name}
          hint={
            workspace.ownName === undefined
              ? 'Unlike any other. Its members see it, until they choose another for themselves.'
              : `Unlike any other, for operators. Its members say “${workspace.ownName}”.`
          }
          mistake={mistakeIn(change.error, 'name')}
        />
        <Choice
          key={String(plans.isSuccess)}
          label="Plan"
          name="plan"
          options={(plans.data?.items ?? [{ name: workspace.plan }]).map(({ name }) => [name, name] as const)}
          defaultValue={workspace.plan}
          mistake={mistakeIn(change.error, 'plan')}
        />
        <Choice
          label="State"
          name="status"
          options={[
            ['active', 'Active'],
            ['blocked', 'Blocked: may read, but not send'],
          ]}
          value={status}
          onChange={({ target }) => setStatus(target.value)}
        />
        {status === 'blocked' && workspace.status !== 'blocked' && (
          // Nothing brings it back, and an arrow key is enough to choose that state.
          <Check required label="What it has accepted and not sent yet fails for good, also if it is unblocked later" />
        )}
        <TextField
          label="Route"
          name="route"
          placeholder={workspace.route ?? 'the installation’s'}
          hint="sandbox, mx, smtp://user:password@host:587, or default. Left empty it stays as it is."
          mistake={mistakeIn(change.error, 'route')}
        />
      </DialogForm>
    </Dialog>
  )
}

export function OperatorPlans() {
  const query = usePlans()
  const [changing, setChanging] = useState<Plan>()
  const [making, setMaking] = useState(false)
  const limit = (value: number | null) =>
    value === null ? <span className="text-soft">no limit</span> : value.toLocaleString()
  return (
    <Page
      title="Plans"
      about="How much a workspace may send."
      actions={
        <Button look="primary" disabled={query.data === undefined} onClick={() => setMaking(true)}>
          Make a plan
        </Button>
      }
    >
      <Card flush>
        <Answered query={query}>
          {({ items }) => (
            <Table
              label="Plans"
              rows={items}
              keyOf={({ name }) => name}
              columns={[
                { head: 'Name', cell: ({ name }) => <span className="font-medium">{name}</span> },
                { head: 'Sending', cell: ({ apiSending }) => (apiSending ? 'Yes' : 'No') },
                { head: 'In 60 minutes', cell: ({ hourly }) => limit(hourly), align: 'right' },
                { head: 'In a day', cell: ({ daily }) => limit(daily), align: 'right' },
                { head: 'In a month', cell: ({ monthly }) => limit(monthly), align: 'right' },
                {
                  head: 'Upgrade address',
                  wideOnly: true,
                  cell: ({ upgradeUrl }) =>
                    upgradeUrl === undefined ? <span className="text-soft">none</span> : <Long text={upgradeUrl} />,
                },
                {
                  head: '',
                  align: 'right',
                  cell: (plan) => (
                    <Button look="quiet" of={plan.name} onClick={() => setChanging(plan)}>
                      Change
                    </Button>
                  ),
                },
              ]}
            />
          )}
        </Answered>
      </Card>
      {changing !== undefined && <PlanDialog plan={changing} done={() => setChanging(undefined)} />}
      {making && <PlanDialog done={() => setMaking(false)} />}
    </Page>
  )
}

type PlanLimits = Required<Omit<Plan, 'name'>>

/** Of a plan that there is, or of a new one. */
function PlanDialog({ plan, done }: { readonly plan?: Plan; readonly done: () => void }) {
  const save = useChange(
    ({ name, ...given }: { name: string; mustBeNew: boolean } & Partial<PlanLimits>) =>
      ask('PUT', `/api/v1/operator/plans/${encodeURIComponent(name)}`, given),
    ['plans', 'usage'],
    done,
  )
  const number = (form: FormData, name: string) => {
    const text = textIn(form, name).trim()
    return text === '' ? null : Number(text)
  }
  return (
    <Dialog
      title={plan === undefined ? 'Make a plan' : `Change the plan “${plan.name}”`}
      description="What is left empty has no limit."
      open
      onOpenChange={done}
    >
      <DialogForm
        action={plan === undefined ? 'Make' : 'Save'}
        by={save}
        fields={['name', 'hourly', 'daily', 'monthly', 'upgradeUrl']}
        onSubmit={(form) => {
          const given: PlanLimits = {
            apiSending: form.get('apiSending') !== null,
            hourly: number(form, 'hourly'),
            daily: number(form, 'daily'),
            monthly: number(form, 'monthly'),
            upgradeUrl: textIn(form, 'upgradeUrl').trim(),
          }
          // One of this name would be changed instead.
          if (plan === undefined) return save.mutate({ ...given, name: textIn(form, 'name').trim(), mustBeNew: true })
          // What was not touched may be another operator's by now.
          const stood: PlanLimits = { upgradeUrl: '', ...plan }
          const changed = Object.entries(given).filter(([field, value]) => value !== stood[field as keyof PlanLimits])
          if (changed.length === 0) return done()
          save.mutate({ ...Object.fromEntries(changed), name: plan.name, mustBeNew: false })
        }}
      >
        {plan === undefined && (
          <TextField label="Name" name="name" required maxLength={200} mistake={mistakeIn(save.error, 'name')} />
        )}
        <Check label="May send" name="apiSending" defaultChecked={plan?.apiSending ?? true} />
        {(['hourly', 'daily', 'monthly'] as const).map((name) => (
          <TextField
            key={name}
            label={{ hourly: 'In the trailing 60 minutes', daily: 'In a day (UTC)', monthly: 'In a month (UTC)' }[name]}
            name={name}
            type="number"
            min={0}
            defaultValue={plan?.[name] ?? ''}
            mistake={mistakeIn(save.error, name)}
          />
        ))}
        <TextField
          label="Upgrade address"
          name="upgradeUrl"
          maxLength={1000}
          placeholder="/upgrade"
          hint="Where callers are sent who need more: a URL, or a path of this installation. Left empty, nowhere."
          defaultValue={plan?.upgradeUrl ?? ''}
          mistake={mistakeIn(save.error, 'upgradeUrl')}
        />
      </DialogForm>
    </Dialog>
  )
}

export function OperatorQueue() {
  const query = useRead<Queue>(['queue'], '/api/v1/operator/queue', { refetchInterval: 4_000 })
  return (
    <Page title="Queue" about="What is not final yet, by workspace and destination.">
      <Answered query={query}>
        {({ total, truncated, groups, lanes, stops }) => (
          <>
            <Stopped stops={stops} />
            <p>
              <strong className="text-xl tabular-nums">{total.toLocaleString()}</strong>{' '}
              {total === 1 ? 'message waits or is' : 'messages wait or are'} being sent
              {truncated && ' (the first 100,000 are counted)'}.
              {groups > lanes.length && ` The largest ${lanes.length} of ${groups.toLocaleString()} groups are shown.`}
            </p>
            <Card flush>
              {lanes.length === 0 ? (
                <Empty icon={Activity} title="The queue is empty." />
              ) : (
                <Table
                  label="Queue"
                  rows={lanes}
                  keyOf={({ workspaceId, destination, status }) => `${workspaceId} ${destination} ${status}`}
                  columns={[
                    {
                      head: 'Destination',
                      cell: ({ destination }) => <span className="font-medium">{destination}</span>,
                    },
                    { head: 'Workspace', cell: ({ workspaceName }) => workspaceName },
                    { head: 'State', cell: ({ status }) => <StateBadge state={status} /> },
                    { head: 'Why it waits', cell: (lane) => <WhyItWaits {...lane} />, wideOnly: true, sentences: true },
                    { head: 'Messages', cell: ({ count }) => count.toLocaleString(), align: 'right' },
                    { head: 'Most tries', cell: ({ attemptsMax }) => attemptsMax, align: 'right', wideOnly: true },
                    { head: 'Oldest due', cell: ({ oldestDueAt }) => <Time at={oldestDueAt} />, align: 'right' },
                  ]}
                />
              )}
            </Card>
          </>
        )}
      </Answered>
    </Page>
  )
}

/** What most of the last attempts ran into, and one of them: its message's timeline has the rest. */
function WhyItWaits({ reason, error, messageId }: Queue['lanes'][number]) {
  if (reason === undefined) return '–'
  return (
    <span className="grid gap-0.5">
      <code className="font-mono text-xs">{reason}</code>
      {error !== undefined && <span className="text-xs wrap-anywhere">{error}</span>}
      {messageId !== undefined && <Id id={messageId} short />}
    </span>
  )
}

/** Nothing while delivery goes on. */
function Stopped({ stops }: Pick<Queue, 'stops'>) {
  if (stops.length === 0) return null
  return (
    <Notice label="Delivery stopped" title="Delivery is stopped on all nodes" icon={OctagonPause}>
      <Stops stops={stops} />
      <p>Mail is accepted as before, and waits.</p>
    </Notice>
  )
}

export function OperatorHealth() {
  const query = useRead<Health>(['health'], '/api/v1/operator/health', { refetchInterval: 10_000 })
  return (
    <Page title="Health" about="The installation itself.">
      {query.data !== undefined && <Stopped stops={query.data.stops} />}
      <Card title="Installation">
        <Answered query={query}>
          {({ version, database }) => (
            <Facts
              rows={[
                ['Posthorn', version],
                ['PostgreSQL', database.version],
                ['Database size', bytes(database.sizeBytes)],
                ['Database started', <Time key="since" at={database.startedAt} />],
                ['Database clock', exactly(new Date(database.now))],
              ]}
            />
          )}
        </Answered>
      </Card>
      <Doctor />
      <Card title="Audit log of the installation" flush>
        <AuditTable name="operator-audit" path="/api/v1/operator/audit" />
      </Card>
    </Page>
  )
}

type Look = Examination['checks'][number]
/** Whoever was woken looks at a phone, on which all that is fine would stand before it. */
const places = { fail: 0, warn: 1, ok: 2, skipped: 3 } as const satisfies Record<Look['status'], number>
const worstFirst = (checks: readonly Look[]): readonly Look[] =>
  checks.toSorted((one, other) => places[one.status] - places[other.status])

/** The same looks as `posthorn doctor`; some of them ask the network, so they take a while. */
function Doctor() {
  const query = useRead<Examination>(['doctor'], '/api/v1/operator/doctor', { staleTime: 30_000 })
  return (
    <Card
      title="What it needs"
      about="Looked at now, as by “posthorn doctor”; it may take 20 seconds."
      flush
      actions={
        <Button busy={query.isFetching} onClick={() => void query.refetch()}>
          Look again
        </Button>
      }
    >
      <Answered query={query} rows={6}>
        {({ checks }) => (
          <ul className="border-t border-line">
            {worstFirst(checks).map(({ name, status, detail }) => (
              <li
                key={name}
                className="grid gap-x-4 gap-y-1 border-b border-line px-4 py-2.5 text-sm last:border-0 sm:grid-cols-[10rem_8rem_minmax(0,1fr)] sm:px-5"
              >
                <span className="font-medium">{name.replaceAll('_', ' ')}</span>
                <span>
                  <StateBadge state={status} />
                </span>
                <span className="break-words whitespace-pre-wrap text-soft">
                  <Sentence of={detail} />
                </span>
              </li>
            ))}
          </ul>
        )}
      </Answered>
    </Card>
  )
}
