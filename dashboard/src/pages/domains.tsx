// The domains to send from, and the records that prove them.
import { Link, useNavigate } from '@tanstack/react-router'
import { Globe } from 'lucide-react'
import { useState } from 'react'
import { ask, useChange, useForgetting } from '../api.ts'
import { useDomains } from '../sender.tsx'
import { useMay } from '../session.tsx'
import type { Domain } from '../shapes.ts'
import { DomainBadge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog, DialogForm } from '../ui/dialog.tsx'
import { mistakeIn, TextField, textIn } from '../ui/field.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Answered, Empty } from '../ui/states.tsx'
import { Table } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { UnicodeName } from '../ui/unicode-name.tsx'

export function Domains() {
  const query = useDomains()
  const [adding, setAdding] = useState(false)
  const mayWrite = useMay('domains.write')
  const navigate = useNavigate()
  const add = useChange(
    (name: string) => ask<Domain>('POST', '/api/v1/domains', { name }),
    ['domains'],
    (made) => void navigate({ to: '/domains/$domainId', params: { domainId: made.id } }),
  )
  useForgetting(adding, add)
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
                    leads: true,
                    cell: ({ id, name }) => (
                      <>
                        <Link to="/domains/$domainId" params={{ domainId: id }} className="font-medium hover:underline">
                          {name}
                        </Link>
                        <UnicodeName of={name} />
                      </>
                    ),
                  },
                  {
                    head: 'State',
                    cell: ({ status }) => <DomainBadge status={status} />,
                  },
                  { head: 'Added', cell: ({ createdAt }) => <Time at={createdAt} />, align: 'right', wideOnly: true },
                ]}
              />
            )
          }
        </Answered>
      </Card>
      <Dialog title="Add a domain" open={adding} onOpenChange={setAdding}>
        <DialogForm
          action="Add"
          by={add}
          fields={['name']}
          onSubmit={(form) => add.mutate(textIn(form, 'name').trim())}
        >
          <TextField
            label="Domain"
            name="name"
            required
            placeholder="example.org"
            autoCapitalize="none"
            mistake={mistakeIn(add.error, 'name')}
          />
        </DialogForm>
      </Dialog>
    </Page>
  )
}
