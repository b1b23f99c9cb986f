// What the sandbox received: the mail as its recipient would see it.
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { Download, FlaskConical, Search } from 'lucide-react'
import { useState } from 'react'
import { useRead, withQuery } from '../api.ts'
import { PagedTable } from '../list.tsx'
import { readSandboxFilter, type SandboxFilter } from '../filters.ts'
import { SearchLine, useSought } from '../search.tsx'
import { useWorkspace } from '../session.tsx'
import type { SandboxMail, SandboxMailParsed } from '../shapes.ts'
import { useSearchField } from '../shortcuts.ts'
import { wantedIn } from '../typed.ts'
import { Button, buttonClass } from '../ui/button.tsx'
import { Form, textIn } from '../ui/field.tsx'
import { Card, Facts, Page } from '../ui/page.tsx'
import { bytes } from '../ui/size.ts'
import { Answered, Empty } from '../ui/states.tsx'
import type { Column } from '../ui/table.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { exactly, Time } from '../ui/time.tsx'
import { titleOf } from './messages.tsx'
import { Files, Framed } from './preview.tsx'

export function Sandbox() {
  const filter = readSandboxFilter(useSearch({ from: '/inside/sandbox' }))
  const navigate = useNavigate()
  const wanted = filter.messageId ?? filter.text ?? filter.recipient ?? ''
  const searchField = useSearchField()
  const [text, setText] = useSought(wanted)
  const look = (sought: SandboxFilter) => {
    const [typed = ''] = Object.values(sought) as string[]
    setText(typed)
    void navigate({ to: '/sandbox', search: typed === '' ? {} : sought })
  }
  return (
    <Page
      title="Sandbox inbox"
      about="On the route “sandbox” mail does not leave this machine: it arrives here. The newest 10,000 are kept, up to 2 GB."
    >
      <Form role="search" onSubmit={(form) => look(wantedIn(textIn(form, 'text')))}>
        <SearchLine field={searchField} text={text} type={setText} placeholder="Address, subject, or id of a message" />
      </Form>
      <Card flush>
        <PagedTable<SandboxMail>
          name="sandbox"
          path="/api/v1/sandbox"
          query={{ ...filter }}
          label="Sandbox inbox"
          keyOf={({ id }) => id}
          refreshMs={4_000}
          columns={columns}
          empty={
            wanted === '' ? (
              <Empty icon={FlaskConical} title="Nothing has arrived yet." />
            ) : (
              <Empty icon={Search} title="Nothing was found.">
                <Button onClick={() => look({})}>Show all</Button>
              </Empty>
            )
          }
        />
      </Card>
    </Page>
  )
}

const columns: readonly Column<SandboxMail>[] = [
  {
    head: 'Subject',
    leads: true,
    gives: true,
    cell: ({ id, subject }) => (
      <Link
        to="/sandbox/$mailId"
        params={{ mailId: id }}
        dir="auto"
        title={subject}
        className="block truncate text-left font-medium hover:underline"
      >
        {titleOf(subject)}
      </Link>
    ),
  },
  {
    head: 'To',
    gives: true,
    cell: ({ recipient }) => (
      <span title={recipient} className="block truncate text-soft">
        {recipient}
      </span>
    ),
    wideOnly: true,
  },
  { head: 'Size', cell: ({ sizeBytes }) => bytes(sizeBytes), align: 'right', wideOnly: true },
  {
    head: 'Message',
    cell: ({ messageId }) =>
      messageId === undefined ? (
        '–'
      ) : (
        <Link to="/messages/$messageId" params={{ messageId }} className="text-accent underline">
          its story
        </Link>
      ),
    wideOnly: true,
  },
  { head: 'Received', cell: ({ receivedAt }) => <Time at={receivedAt} />, align: 'right' },
]

export function SandboxMailPage() {
  const { mailId } = useParams({ from: '/inside/sandbox/$mailId' })
  const { workspaceId } = useWorkspace()
  const path = `/api/v1/sandbox/${encodeURIComponent(mailId)}`
  const query = useRead<SandboxMailParsed>(['sandbox', mailId], path)
  return (
    <Page
      title={query.data === undefined ? 'Mail' : titleOf(query.data.subject)}
      actions={
        query.data !== undefined && (
          <a
            href={withQuery(`${path}/raw`, { workspace: workspaceId })}
            download={`${mailId}.eml`}
            className={buttonClass()}
          >
            <Download aria-hidden className="size-4" /> Download
          </a>
        )
      }
    >
      <Answered query={query} rows={8}>
        {(mail) => (
          <>
            <Card>
              <Facts
                rows={[
                  ['Subject', titleOf(mail.subject)],
                  ['To', mail.recipient],
                  ['Return path', mail.envelopeFrom === '' ? '<>' : mail.envelopeFrom],
                  ['Received', exactly(new Date(mail.receivedAt))],
                  ...(mail.messageId === undefined
                    ? []
                    : [
                        [
                          'Message',
                          <Link
                            key="id"
                            to="/messages/$messageId"
                            params={{ messageId: mail.messageId }}
                            className="text-accent underline"
                          >
                            its story
                          </Link>,
                        ] as const,
                      ]),
                ]}
              />
            </Card>
            <Content of={mail} />
            <Card title="Header">
              <dl className="grid grid-cols-[minmax(6rem,auto)_minmax(0,1fr)] gap-x-4 gap-y-1 font-mono text-xs">
                {mail.headers.map(({ name, value }, index) => (
                  // Fields repeat, and their order is their identity.
                  // oxlint-disable-next-line react/no-array-index-key
                  <div key={index} className="contents">
                    <dt className="text-soft">{name}</dt>
                    <dd className="break-all whitespace-pre-wrap">{value}</dd>
                  </div>
                ))}
              </dl>
            </Card>
          </>
        )}
      </Answered>
    </Page>
  )
}

/** First as its recipient would see it. */
function Content({ of: mail }: { readonly of: SandboxMailParsed }) {
  const [form, setForm] = useState<'Text' | 'HTML'>(mail.html === undefined ? 'Text' : 'HTML')
  const forms = [
    ...(mail.html === undefined ? [] : ['HTML' as const]),
    ...(mail.text === undefined ? [] : ['Text' as const]),
  ]
  return (
    <Card
      title="Mail"
      actions={forms.length > 1 && <Tabs label="Shown as" names={forms} chosen={form} choose={setForm} />}
    >
      <div className="grid gap-3">
        {form === 'HTML' ? (
          <Framed path={`/api/v1/sandbox/${mail.id}/html`} />
        ) : mail.text === undefined ? (
          <p className="text-sm text-soft">It has no text.</p>
        ) : (
          <pre tabIndex={0} className="overflow-auto font-sans break-words whitespace-pre-wrap">
            {mail.text}
          </pre>
        )}
        {!mail.whole && (
          <p className="text-sm text-soft">
            This mail is large; what is shown is its beginning. The download has all of it.
          </p>
        )}
        {mail.attachments.length > 0 && <Files of={mail.attachments} />}
      </div>
    </Card>
  )
}
