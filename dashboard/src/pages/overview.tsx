// How it goes: what was accepted and what became of it, how fast, and how much of the plan is used. For somebody new: how to send the first.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { useRead, withQuery } from '../api.ts'
import { useIntervalOf } from '../live.ts'
import { useSender } from '../sender.tsx'
import { useMay } from '../session.tsx'
import { Chart } from '../ui/chart.tsx'
import type { MessageListItem, PageOf, Usage, UsageSeries } from '../shapes.ts'
import { states, type StateName } from '../ui/badge.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Answered, Empty } from '../ui/states.tsx'
import { Table } from '../ui/table.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { duration } from '../ui/span.ts'
import { DeliveryStopped } from './delivery-stopped.tsx'
import { FirstMessage } from './first-message.tsx'
import { messageColumns } from './messages.tsx'
import { Quota, QuotaTrouble } from './quota.tsx'
import { useEndpoint, WebhookTrouble } from './webhook-trouble.tsx'

const spans = { '24 hours': 'hour', '30 days': 'day' } as const
type Span = keyof typeof spans

export function Overview() {
  const span: Span = useSearch({ from: '/inside/' }).span === 'days' ? '30 days' : '24 hours'
  const navigate = useNavigate()
  const choose = (chosen: Span) =>
    void navigate({ to: '/', search: chosen === '30 days' ? { span: 'days' } : {}, resetScroll: false })
  const interval = useIntervalOf('messages')
  const latest = useRead<PageOf<MessageListItem>>(['messages', 'latest'], '/api/v1/messages?limit=6', {
    refetchInterval: interval(3_000),
  })
  const series = useRead<UsageSeries>(['series', span], withQuery('/api/v1/usage/series', { step: spans[span] }), {
    refetchInterval: interval(5_000),
  })
  const usage = useRead<Usage>(['usage'], '/api/v1/usage', { refetchInterval: interval(5_000) })
  const sender = useSender()
  const endpoint = useEndpoint(useMay('webhooks.read'))
  // The new key is shown once: the first message does not take it away, nor what was asked for and is on its way.
  const [stays, setStays] = useState(false)
  const isNew = latest.data?.items.length === 0 || stays
  return (
    <Page
      title="Overview"
      actions={<Tabs label="Time span" names={Object.keys(spans) as Span[]} chosen={span} choose={choose} />}
    >
      <DeliveryStopped usage={usage.data} />
      <QuotaTrouble usage={usage.data} readAt={usage.dataUpdatedAt} />
      <WebhookTrouble endpoint={endpoint.data} />
      {isNew && sender !== undefined && <FirstMessage sender={sender} stay={() => setStays(true)} />}
      <Answered query={series} rows={3}>
        {({ totals, from }) => <Totals totals={totals} from={from} />}
      </Answered>
      <div className="grid items-start gap-6 lg:grid-cols-[minmax(0,1fr)_20rem]">
        <Card title="Over time">
          <Answered query={series} rows={7}>
            {(data) => <Chart series={data} />}
          </Answered>
        </Card>
        <Card title="Plan">
          <Answered query={usage}>{(data) => <Quota usage={data} />}</Answered>
        </Card>
      </div>
      <Card
        title="Latest messages"
        flush
        actions={
          <Link to="/messages" className="text-sm text-accent underline">
            All messages
          </Link>
        }
      >
        <Answered query={latest}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty title="No message yet." />
            ) : (
              <Table label="Latest messages" columns={messageColumns} rows={items} keyOf={({ id }) => id} />
            )
          }
        </Answered>
      </Card>
    </Page>
  )
}

/** A number counts what happened, a list has what stands so now: of another number, and nobody should look for what is missing. */
const listed = 'The list shows the messages accepted since its beginning that stand so now.'
const hints = {
  moves: `How many came to this in the time shown. ${listed}`,
  reports: `How many reports came in the time shown. ${listed}`,
} as const

const shown: readonly (readonly [
  name: keyof UsageSeries['totals'],
  words: string,
  state: StateName,
  search: object,
  hint?: string,
])[] = [
  ['accepted', 'Accepted', 'queued', {}],
  ['sent', 'Sent', 'sent', { status: 'sent' }, hints.moves],
  ['delivered', 'Delivered', 'delivered', { deliveryStatus: 'delivered' }, hints.reports],
  ['failed', 'Failed', 'failed', { status: 'failed' }, hints.moves],
  ['hardBounced', 'Hard bounces', 'hard_bounce', { deliveryStatus: 'hard_bounce' }, hints.reports],
  ['complained', 'Complaints', 'complaint', { deliveryStatus: 'complaint' }, hints.reports],
  ['unknown', 'Unknown', 'delivery_unknown', { status: 'delivery_unknown' }, hints.moves],
]

/** Each leads to the messages since the beginning of what is counted; that ends now, as they do. */
function Totals({ totals, from }: Pick<UsageSeries, 'totals' | 'from'>) {
  const { latencyMs } = totals
  return (
    <section aria-label="Totals">
      <ul className="grid grid-cols-2 gap-px overflow-hidden rounded-xl border border-line bg-line sm:grid-cols-4 xl:grid-cols-8">
        {shown.map(([name, words, state, search, hint]) => {
          const { icon: Icon } = states[state]
          return (
            <li key={name} className="bg-card">
              <Link
                to="/messages"
                search={{ ...search, from }}
                title={hint}
                className="grid gap-1 px-4 py-3 hover:bg-sunken xl:px-2"
              >
                <span className="flex items-center gap-1 text-xs text-soft">
                  <Icon aria-hidden className="size-3.5 shrink-0" /> {words}
                </span>
                <span className="text-xl font-semibold tabular-nums">{Number(totals[name]).toLocaleString()}</span>
              </Link>
            </li>
          )
        })}
        <li className="grid gap-1 bg-card px-4 py-3 xl:px-2">
          <span className="text-xs text-soft">Until sent</span>
          <span className="text-xl font-semibold tabular-nums">
            {latencyMs === undefined ? '–' : duration(latencyMs.p50)}
          </span>
          {latencyMs !== undefined && (
            <span className="text-xs text-soft">
              for half; 95% <span className="whitespace-nowrap">within {duration(latencyMs.p95)}</span>
            </span>
          )}
        </li>
      </ul>
    </section>
  )
}
