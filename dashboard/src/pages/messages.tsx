// All messages, the newest first, and ways to find one.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { Mail, Search } from 'lucide-react'
import { useState } from 'react'
import { PagedTable } from '../list.tsx'
import type { MessageListItem } from '../shapes.ts'
import { StateBadge, states } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Choice, TextField, textIn } from '../ui/field.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Empty } from '../ui/states.tsx'
import type { Column } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

export interface MessageFilter {
  readonly status?: string
  readonly deliveryStatus?: string
  readonly text?: string
  readonly recipient?: string
}

const choices = (names: readonly (keyof typeof states)[]) =>
  [['', 'Any'], ...names.map((name) => [name, states[name].word] as const)] as const
const statusChoices = choices(['queued', 'sending', 'sent', 'retrying', 'failed', 'delivery_unknown'])
const deliveryChoices = choices(['pending', 'delivered', 'soft_bounce', 'hard_bounce', 'complaint'])

export const messageColumns: readonly Column<MessageListItem>[] = [
  {
    head: 'Recipient',
    cell: ({ id, recipient }) => (
      <Link to="/messages/$messageId" params={{ messageId: id }} className="block truncate font-medium hover:underline">
        {recipient}
      </Link>
    ),
  },
  {
    head: 'Subject',
    cell: ({ subject }) => <span className="block truncate text-soft">{subject}</span>,
    wideOnly: true,
  },
  { head: 'State', cell: ({ status }) => <StateBadge state={status} /> },
  { head: 'Provider says', cell: ({ deliveryStatus }) => <StateBadge state={deliveryStatus} /> },
  { head: 'Accepted', cell: ({ createdAt }) => <Time at={createdAt} />, align: 'right' },
]

export function Messages() {
  const filter: MessageFilter = useSearch({ from: '/inside/messages' })
  const navigate = useNavigate()
  const [text, setText] = useState(filter.text ?? filter.recipient ?? '')
  const look = (changes: MessageFilter) => {
    const all = Object.entries({ ...filter, ...changes }).filter(([, value]) => value !== undefined && value !== '')
    void navigate({ to: '/messages', search: Object.fromEntries(all) })
  }
  const isFiltered = Object.keys(filter).length > 0
  return (
    <Page title="Messages" about="Everything that was accepted, and what became of it.">
      <form
        role="search"
        className="grid gap-3 sm:grid-cols-[minmax(0,1fr)_10rem_10rem_auto] sm:items-end"
        onSubmit={(event) => {
          event.preventDefault()
          const wanted = textIn(new FormData(event.currentTarget), 'text').trim()
          // A whole address is found along an index, however long ago it was.
          const isAddress = /^[^\s@]+@[^\s@]+$/.test(wanted)
          look({ recipient: isAddress ? wanted : '', text: isAddress ? '' : wanted })
        }}
      >
        <TextField
          label="Search"
          name="text"
          type="search"
          placeholder="An address, or part of the subject"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
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
        <Button type="submit" icon={<Search aria-hidden className="size-4" />}>
          Search
        </Button>
      </form>
      <Card flush>
        <PagedTable<MessageListItem>
          name="messages"
          path="/api/v1/messages"
          query={{ ...filter }}
          label="Messages"
          columns={messageColumns}
          keyOf={({ id }) => id}
          refreshMs={4_000}
          empty={
            isFiltered ? (
              <Empty icon={Search} title="Nothing was found.">
                <Button
                  onClick={() => {
                    setText('')
                    void navigate({ to: '/messages', search: {} })
                  }}
                >
                  Show all
                </Button>
              </Empty>
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
      </Card>
    </Page>
  )
}
