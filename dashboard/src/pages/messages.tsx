// All messages, the newest first, and ways to find one.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { Mail, Search } from 'lucide-react'
import { useRead } from '../api.ts'
import { PagedTable } from '../list.tsx'
import { isInstant, midnight, narrowed, readFilter, type MessageFilter } from '../filters.ts'
import { Filters, SearchLine, setIn, useSought } from '../search.tsx'
import type { ListOf, Mailbox, MessageListItem } from '../shapes.ts'
import { useSearchField } from '../shortcuts.ts'
import { addressIn, metadataIn, wantedIn } from '../typed.ts'
import { StateBadge, states } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { DayField } from '../ui/day-field.tsx'
import { Choice, Form, TextField, textIn } from '../ui/field.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Empty } from '../ui/states.tsx'
import type { Column } from '../ui/table.tsx'
import { exactly, Time } from '../ui/time.tsx'
import { SuppressedNow } from './suppressed-now.tsx'

/** What a mail is called: some have no subject, or one of blanks. */
export const titleOf = (subject: string | undefined): string =>
  subject === undefined || subject.trim() === '' ? '(no subject)' : subject

const choices = (names: readonly (keyof typeof states)[]) =>
  [['', 'Any'], ...names.map((name) => [name, states[name].word] as const)] as const
const statusChoices = choices(['queued', 'sending', 'sent', 'retrying', 'failed', 'delivery_unknown'])
const deliveryChoices = choices(['pending', 'delivered', 'soft_bounce', 'hard_bounce', 'complaint'])

export const messageColumns: readonly Column<MessageListItem>[] = [
  {
    head: 'Recipient',
    leads: true,
    gives: true,
    cell: ({ id, recipient }) => (
      <Link
        to="/messages/$messageId"
        params={{ messageId: id }}
        title={recipient}
        className="block truncate font-medium hover:underline"
      >
        {recipient}
      </Link>
    ),
  },
  {
    head: 'Subject',
    gives: true,
    cell: ({ subject }) => (
      <span dir="auto" title={subject} className="block truncate text-left text-soft">
        {titleOf(subject)}
      </span>
    ),
    wideOnly: true,
  },
  { head: 'State', cell: ({ status }) => <StateBadge state={status} /> },
  { head: 'Provider says', cell: ({ deliveryStatus }) => <StateBadge state={deliveryStatus} />, wideOnly: true },
  { head: 'Accepted', cell: ({ createdAt }) => <Time at={createdAt} />, align: 'right', wideOnly: true },
]

/** The filter as the service wants it: instants, the last day to its end. */
function asked({ from, to, metadata = '', ...filter }: MessageFilter): Readonly<Record<string, string>> {
  const instant = (time: string, daysLater: number) => (isInstant(time) ? time : midnight(time, daysLater))
  return {
    ...filter,
    ...metadataIn(metadata),
    ...(from && { from: instant(from, 0) }),
    ...(to && { to: instant(to, 1) }),
  }
}

/** A range that holds nothing. */
function isBackwards(filter: MessageFilter): boolean {
  const { from, to } = asked(filter)
  return from !== undefined && to !== undefined && Date.parse(to) <= Date.parse(from)
}

/** As a field for days takes it: the browser's own. */
function dayOf(time = ''): string {
  if (!isInstant(time)) return time
  const at = new Date(time)
  const two = (number: number) => String(number).padStart(2, '0')
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
}

/** What the fields for days cannot show of instants. */
function Range({ from = '', to = '' }: MessageFilter) {
  const words = [
    ...(isInstant(from) ? [`since ${exactly(new Date(from))}`] : []),
    ...(isInstant(to) ? [`before ${exactly(new Date(to))}`] : []),
  ]
  return words.length > 0 && <p className="text-sm text-soft">Accepted {words.join(' and ')}.</p>
}

function MailboxChoice({ chosen, choose }: { readonly chosen: string; readonly choose: (id: string) => void }) {
  const { data } = useRead<ListOf<Mailbox>>(['mailboxes'], '/api/v1/mailboxes')
  const known = (data?.items ?? []).map(({ id, address }) => [id, address] as const)
  // One that was removed is in no list, and its messages are still there.
  const removed =
    chosen === '' || known.some(([id]) => id === chosen) ? [] : [[chosen, `…${chosen.slice(-8)}`] as const]
  return (
    <Choice
      label="Mailbox"
      options={[['', 'Any'], ...known, ...removed]}
      value={chosen}
      onChange={(event) => choose(event.target.value)}
    />
  )
}

export function Messages() {
  // What the route has not validated comes through as it is.
  const filter = readFilter(useSearch({ from: '/inside/messages' }))
  const navigate = useNavigate()
  const searchField = useSearchField()
  const [text, setText] = useSought(filter.text ?? filter.recipient)
  const [metadata, setMetadata] = useSought(filter.metadata)
  const look = (changes: MessageFilter) =>
    void navigate({ to: '/messages', search: narrowed<MessageFilter>(filter, changes) })
  const reset = () => {
    setText('')
    setMetadata('')
    void navigate({ to: '/messages', search: {} })
  }
  const isFiltered = Object.keys(filter).length > 0
  return (
    <Page title="Messages" about="Everything that was accepted, and what became of it.">
      <Form
        role="search"
        className="grid gap-3"
        onSubmit={(form) => {
          const sought = wantedIn(textIn(form, 'text'))
          if ('messageId' in sought) return void navigate({ to: '/messages/$messageId', params: sought })
          const { recipient, text } = { recipient: '', text: '', ...sought }
          setText(recipient || text)
          look({ recipient, text, metadata: textIn(form, 'metadata') })
        }}
      >
        <SearchLine field={searchField} text={text} type={setText} placeholder="Address, subject, any id" />
        <Filters
          set={setIn(filter, 'text', 'recipient')}
          className="min-[22rem]:grid-cols-2 sm:grid-cols-3 xl:grid-cols-6"
        >
          <Choice
            label="State"
            options={statusChoices}
            value={filter.status ?? ''}
            onChange={(event) => look({ status: event.target.value })}
          />
          <Choice
            label="Provider says"
            options={deliveryChoices}
            value={filter.deliveryStatus ?? ''}
            onChange={(event) => look({ deliveryStatus: event.target.value })}
          />
          <DayField label="From" max={dayOf(filter.to)} day={dayOf(filter.from)} choose={(from) => look({ from })} />
          <DayField
            label="To"
            min={dayOf(filter.from)}
            mistake={isBackwards(filter) ? 'This is before “From”.' : undefined}
            day={dayOf(filter.to)}
            choose={(to) => look({ to })}
          />
          <MailboxChoice chosen={filter.mailboxId ?? ''} choose={(mailboxId) => look({ mailboxId })} />
          <TextField
            label="Metadata"
            name="metadata"
            placeholder="order=4711"
            title="A name and its value, or a value under any name, exactly"
            value={metadata}
            onChange={(event) => setMetadata(event.target.value)}
            mistake={
              metadata.trim() === '' || metadataIn(metadata) !== undefined
                ? undefined
                : 'It needs a value, of at most 500 characters; a name has at most 40.'
            }
          />
        </Filters>
      </Form>
      <Range {...filter} />
      <Card flush>
        {isBackwards(filter) ? (
          // Asked for, it would be refused; the field says why.
          <NotFound reset={reset} />
        ) : (
          <PagedTable<MessageListItem>
            name="messages"
            path="/api/v1/messages"
            query={asked(filter)}
            label="Messages"
            columns={messageColumns}
            keyOf={({ id }) => id}
            refreshMs={4_000}
            looking={(backTo) => (
              <p className="text-center text-sm text-soft">
                Nothing so far, back to {exactly(new Date(backTo))}. With an address or days it is quicker.
              </p>
            )}
            empty={
              isFiltered ? (
                <NotFound reset={reset} recipient={filter.recipient} text={filter.text} />
              ) : (
                <Empty icon={Mail} title="No message yet.">
                  The{' '}
                  <Link to="/" className="text-accent underline">
                    overview
                  </Link>{' '}
                  shows how to send the first one.
                </Empty>
              )
            }
          />
        )}
      </Card>
    </Page>
  )
}

/** Of an address, what may be the reason. */
function NotFound({
  reset,
  recipient,
  text,
}: {
  readonly reset: () => void
  readonly recipient?: string | undefined
  readonly text?: string | undefined
}) {
  return (
    <>
      <Empty icon={Search} title="Nothing was found.">
        {(recipient ?? text) !== undefined && (
          <p className="pb-3 text-sm">
            {recipient !== undefined && (
              <>
                No such message to <span className="wrap-anywhere">{recipient}</span> is kept.{' '}
              </>
            )}
            What was refused never became a message:{' '}
            <Link to="/refused" className="text-accent underline">
              Refused
            </Link>{' '}
            has it, {recipient === undefined ? 'by its reason and request id' : 'by the domain of the recipient'}.
          </p>
        )}
        <Button onClick={reset}>Show all</Button>
      </Empty>
      {recipient !== undefined && (
        <div className="p-4 pt-0 sm:p-5 sm:pt-0">
          <SuppressedNow recipient={addressIn(recipient) ?? recipient} />
        </div>
      )}
    </>
  )
}
