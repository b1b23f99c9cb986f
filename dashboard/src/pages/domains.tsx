// The domains to send from, and the records that prove them.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { Globe } from 'lucide-react'
import { useState } from 'react'
import { ask, get, useChange } from '../api.ts'
import { useMay } from '../session.tsx'
import type { Domain, ListOf } from '../shapes.ts'
import { Badge, StateBadge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { CopyButton, Snippet } from '../ui/copy.tsx'
import { Confirm, Dialog, DialogActions } from '../ui/dialog.tsx'
import { FormMistake, mistakeIn, TextField, textIn } from '../ui/field.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Answered, Empty } from '../ui/states.tsx'
import { Table } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

export function Domains() {
  const query = useQuery({
    queryKey: ['domains'],
    queryFn: ({ signal }) => get<ListOf<Domain>>('/api/v1/domains', signal),
  })
  const [adding, setAdding] = useState(false)
  const mayWrite = useMay('domains.write')
  const navigate = useNavigate()
  const add = useChange(
    (name: string) => ask<Domain>('POST', '/api/v1/domains', { name }),
    ['domains'],
    (made) => void navigate({ to: '/domains/$domainId', params: { domainId: made.id } }),
  )
  return (
    <Page
      title="Domains"
      about="Mail leaves from addresses on domains that you have proved to be yours."
      actions={
        mayWrite && (
          <Button look="primary" onClick={() => setAdding(true)}>
            Add a domain
          </Button>
        )
      }
    >
      <Card flush>
        <Answered query={query}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty icon={Globe} title="No domain yet.">
                Add the domain that your mail comes from; you then get the DNS records to set.
              </Empty>
            ) : (
              <Table
                label="Domains"
                rows={items}
                keyOf={({ id }) => id}
                columns={[
                  {
                    head: 'Domain',
                    cell: ({ id, name }) => (
                      <Link to="/domains/$domainId" params={{ domainId: id }} className="font-medium hover:underline">
                        {name}
                      </Link>
                    ),
                  },
                  { head: 'State', cell: ({ status }) => <StateBadge state={status} /> },
                  { head: 'Added', cell: ({ createdAt }) => <Time at={createdAt} />, align: 'right' },
                ]}
              />
            )
          }
        </Answered>
      </Card>
      <Dialog title="Add a domain" open={adding} onOpenChange={setAdding}>
        <form
          className="grid gap-4"
          onSubmit={(event) => {
            event.preventDefault()
            add.mutate(textIn(new FormData(event.currentTarget), 'name').trim())
          }}
        >
          <TextField
            label="Domain"
            name="name"
            required
            placeholder="example.org"
            autoCapitalize="none"
            mistake={mistakeIn(add.error, 'name')}
          />
          <FormMistake error={add.error} fields={['name']} />
          <DialogActions>
            <Button onClick={() => setAdding(false)}>Cancel</Button>
            <Button look="primary" type="submit" busy={add.isPending}>
              Add
            </Button>
          </DialogActions>
        </form>
      </Dialog>
    </Page>
  )
}

/** A zone file's lines (RFC 1035 5): long texts in pieces of at most 255 octets. */
export function zoneOf(records: Domain['records']): string {
  return records
    .map(({ type, name, value }) => {
      const data =
        type === 'TXT'
          ? (value.match(/.{1,250}/gs) ?? ['']).map((piece) => JSON.stringify(piece)).join(' ')
          : dotted(value)
      return `${name}.\tIN\t${type}\t${data}`
    })
    .join('\n')
}
const dotted = (value: string) => (value.endsWith('.') ? value : `${value}.`)

export function DomainPage() {
  const { domainId } = useParams({ from: '/inside/domains/$domainId' })
  const query = useQuery({
    queryKey: ['domains', domainId],
    queryFn: ({ signal }) => get<Domain>(`/api/v1/domains/${domainId}`, signal),
  })
  const [removing, setRemoving] = useState(false)
  const mayWrite = useMay('domains.write')
  const navigate = useNavigate()
  const remove = useChange(
    () => ask('DELETE', `/api/v1/domains/${domainId}`),
    ['domains'],
    () => void navigate({ to: '/domains' }),
  )
  return (
    <Page
      title={query.data?.name ?? 'Domain'}
      about={query.data !== undefined && <StateBadge state={query.data.status} />}
      actions={
        mayWrite && (
          <Button look="danger" onClick={() => setRemoving(true)}>
            Remove
          </Button>
        )
      }
    >
      <Answered query={query}>
        {({ records }) => (
          <>
            <Card title="Records to set" about="Where you manage the DNS of this domain. Copy them exactly." flush>
              <Table
                label="DNS records"
                rows={records}
                keyOf={({ type, name }) => `${type} ${name}`}
                columns={[
                  { head: 'Type', cell: ({ type }) => <span className="font-mono text-xs">{type}</span> },
                  { head: 'Name', cell: ({ name }) => <Copyable text={name} /> },
                  { head: 'Value', cell: ({ value }) => <Copyable text={value} /> },
                  {
                    head: 'State',
                    cell: ({ status }) =>
                      status === 'advised' ? <Badge tone="idle">Advised</Badge> : <StateBadge state={status} />,
                  },
                ]}
              />
            </Card>
            <Card title="As a zone file">
              <Snippet text={zoneOf(records)} label="zone file" />
            </Card>
          </>
        )}
      </Answered>
      <Confirm
        title="Remove this domain?"
        action="Remove"
        open={removing}
        onOpenChange={setRemoving}
        busy={remove.isPending}
        onConfirm={() => remove.mutate(undefined)}
        mistake={<FormMistake error={remove.error} />}
      >
        Its DKIM key is deleted with it. A domain that has mailboxes stays.
      </Confirm>
    </Page>
  )
}

function Copyable({ text }: { readonly text: string }) {
  return (
    <span className="flex items-center gap-1">
      <code title={text} className="max-w-72 truncate font-mono text-xs">
        {text}
      </code>
      <CopyButton text={text} />
    </span>
  )
}
