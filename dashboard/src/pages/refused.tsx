// What never became a message, and why: the same codes and sentences that the sender was told.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { CircleSlash, Search } from 'lucide-react'
import { PagedTable } from '../list.tsx'
import { midnight, narrowed, readRefusedFilter, type RefusedFilter } from '../filters.ts'
import { Filters, setIn } from '../search.tsx'
import type { RefusedSubmission } from '../shapes.ts'
import { Button } from '../ui/button.tsx'
import { Id } from '../ui/copy.tsx'
import { DayField } from '../ui/day-field.tsx'
import { Choice } from '../ui/field.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Sentence } from '../ui/sentence.tsx'
import { Empty } from '../ui/states.tsx'
import type { Column } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { UnicodeName } from '../ui/unicode-name.tsx'
import { shownOf, useKeysAndLogins } from './revocable.tsx'

/** In words; a code that is not here speaks for itself. */
const reasons: Readonly<Record<string, string>> = {
  recipient_suppressed: 'The recipient is suppressed.',
  hourly_limit_reached: 'The plan’s limit for 60 minutes was reached.',
  daily_limit_reached: 'The plan’s limit for the day was reached.',
  monthly_limit_reached: 'The plan’s limit for the month was reached.',
  attachment_infected: 'The scanner found malware in a file, or could not examine it.',
  upgrade_required: 'The plan does not include sending.',
  workspace_blocked: 'The workspace is blocked.',
  mailbox_not_active: 'The sender is no active mailbox on a verified domain.',
  insufficient_scope: 'The key may not send.',
  invalid_request: 'Something in the request was wrong.',
  invalid_json: 'The request was not JSON.',
  payload_too_large: 'The message was too large.',
  too_many_attachments: 'There were too many files.',
  attachments_too_large: 'The files were too large.',
  scanner_unavailable: 'The malware scanner could not be reached.',
  service_unavailable: 'The service could not take it at that moment.',
  idempotency_key_reused: 'The same Idempotency-Key came with another body.',
  idempotency_in_progress: 'The same Idempotency-Key was being worked on.',
  internal_error: 'Something is broken here; the log says what.',
}

const codeChoices = [
  ['', 'Any'],
  ...Object.entries(reasons).map(([code, words]) => [code, `${words.replace(/\.$/, '')} (${code})`] as const),
] as const
const sourceChoices = [
  ['', 'Any'],
  ['rest', 'HTTP'],
  ['smtp', 'SMTP'],
] as const

/** As the service wants it. */
const asked = ({ from, to, ...filter }: RefusedFilter): Readonly<Record<string, string>> => ({
  ...filter,
  ...(from && { from: midnight(from, 0) }),
  ...(to && { to: midnight(to, 1) }),
})

type Callers = ReturnType<typeof useKeysAndLogins>

function Caller({ id, callers }: { readonly id: string | undefined; readonly callers: Callers }) {
  if (id === undefined) return '–'
  const caller = callers.find((each) => each.id === id)
  if (caller === undefined) return <Id id={id} short />
  return (
    <Link to="/settings" className="grid justify-items-start hover:underline">
      <span className="wrap-anywhere">{caller.name}</span>
      <code className="font-mono text-xs wrap-anywhere text-soft">{shownOf(caller)}</code>
    </Link>
  )
}

export function Refused() {
  const filter = readRefusedFilter(useSearch({ from: '/inside/refused' }))
  const navigate = useNavigate()
  const callers = useKeysAndLogins()
  const look = (changes: RefusedFilter) =>
    void navigate({ to: '/refused', search: narrowed<RefusedFilter>(filter, changes) })
  const { from = '', to = '' } = filter
  const isBackwards = from !== '' && to !== '' && to < from
  const isFiltered = Object.keys(filter).length > 0
  const empty = isFiltered ? (
    <Empty icon={Search} title="Nothing was found.">
      <Button onClick={() => void navigate({ to: '/refused', search: {} })}>Show all</Button>
    </Empty>
  ) : (
    <Empty icon={CircleSlash} title="Nothing was refused." />
  )
  return (
    <Page
      title="Refused"
      about="What was handed in and refused, of the last 30 days. It never became a message, and the sender was told why."
    >
      <form role="search" className="grid gap-3">
        <Filters set={setIn(filter)} className="min-[22rem]:grid-cols-2 sm:grid-cols-4">
          <Choice
            label="Why"
            options={codeChoices}
            value={filter.code ?? ''}
            onChange={({ target }) => look({ code: target.value })}
          />
          <Choice
            label="Over"
            options={sourceChoices}
            value={filter.source ?? ''}
            onChange={({ target }) => look({ source: target.value })}
          />
          <DayField label="From" max={to} day={from} choose={(day) => look({ from: day })} />
          <DayField
            label="To"
            min={from}
            mistake={isBackwards ? 'This is before “From”.' : undefined}
            day={to}
            choose={(day) => look({ to: day })}
          />
        </Filters>
      </form>
      <Card flush>
        {isBackwards ? (
          // Asked for, it would be refused; the field says why.
          empty
        ) : (
          <PagedTable<RefusedSubmission>
            name="refused"
            path="/api/v1/refused-submissions"
            query={asked(filter)}
            label="Refused submissions"
            keyOf={({ id }) => id}
            refreshMs={4_000}
            columns={columnsWith(callers)}
            empty={empty}
          />
        )}
      </Card>
    </Page>
  )
}

const columnsWith = (callers: Callers): readonly Column<RefusedSubmission>[] => [
  {
    head: 'Why',
    sentences: true,
    cell: ({ code, error, field, requestId }) => (
      <span className="grid">
        <span className="font-medium">{reasons[code] ?? code}</span>
        {error !== undefined && (
          <span className="text-xs wrap-anywhere">
            <Sentence of={error} />
          </span>
        )}
        {reasons[code] !== undefined && (
          <code className="font-mono text-xs wrap-anywhere text-soft">
            {code}
            {field !== undefined && `: ${field}`}
          </code>
        )}
        {requestId !== undefined && (
          <span className="text-xs text-soft">
            Request <code className="font-mono wrap-anywhere">{requestId}</code>
          </span>
        )}
      </span>
    ),
  },
  {
    head: 'From',
    cell: ({ sender }) => (sender === undefined ? '–' : <span className="block min-w-28 wrap-anywhere">{sender}</span>),
    wideOnly: true,
  },
  {
    head: 'To a recipient at',
    cell: ({ recipientDomain }) =>
      recipientDomain === undefined ? (
        '–'
      ) : (
        <span className="block min-w-32 wrap-anywhere">
          {recipientDomain}
          <UnicodeName of={recipientDomain} />
        </span>
      ),
  },
  { head: 'Over', cell: ({ source }) => (source === 'smtp' ? 'SMTP' : 'HTTP'), wideOnly: true },
  {
    head: 'Key or login',
    cell: ({ keyId, smtpCredentialId }) => <Caller id={keyId ?? smtpCredentialId} callers={callers} />,
    wideOnly: true,
  },
  { head: 'When', cell: ({ at }) => <Time at={at} />, align: 'right' },
]
