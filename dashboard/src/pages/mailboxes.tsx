// The addresses to send from.
import { Link } from '@tanstack/react-router'
import { AtSign } from 'lucide-react'
import { useState } from 'react'
import { ask, useChange, useForgetting, useRead } from '../api.ts'
import { maySend, useDomains } from '../sender.tsx'
import { useMay } from '../session.tsx'
import type { ListOf, Mailbox } from '../shapes.ts'
import { StateBadge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Id } from '../ui/copy.tsx'
import { Confirm, Dialog, DialogForm } from '../ui/dialog.tsx'
import { AddressField, FormMistake, mistakeIn, TextField, textIn } from '../ui/field.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Answered, Empty } from '../ui/states.tsx'
import { Table } from '../ui/table.tsx'
import { UnicodeName } from '../ui/unicode-name.tsx'

export function Mailboxes() {
  const query = useRead<ListOf<Mailbox>>(['mailboxes'], '/api/v1/mailboxes')
  const domains = useDomains()
  const [adding, setAdding] = useState(false)
  const [disabling, setDisabling] = useState<Mailbox>()
  const mayWrite = useMay('mailboxes.write')
  const add = useChange(
    (given: { address: string; name?: string }) => ask('POST', '/api/v1/mailboxes', given),
    ['mailboxes'],
    () => setAdding(false),
  )
  useForgetting(adding, add)
  // Two changes: one that is under way is not the other's, whose question may be open meanwhile.
  const enable = useChange(
    ({ id }: Mailbox) => ask('PATCH', `/api/v1/mailboxes/${id}`, { status: 'active' }),
    ['mailboxes'],
  )
  const disable = useChange(
    ({ id }: Mailbox) => ask('PATCH', `/api/v1/mailboxes/${id}`, { status: 'disabled' }),
    ['mailboxes'],
    () => setDisabling(undefined),
  )
  const [naming, setNaming] = useState<Mailbox>()
  const rename = useChange(
    ({ id, name }: { id: string; name: string }) => ask('PATCH', `/api/v1/mailboxes/${id}`, { name }),
    ['mailboxes'],
    () => setNaming(undefined),
  )
  useForgetting(naming !== undefined, rename)
  const [removing, setRemoving] = useState<Mailbox>()
  const remove = useChange(
    ({ id }: Mailbox) => ask('DELETE', `/api/v1/mailboxes/${id}`),
    ['mailboxes'],
    () => setRemoving(undefined),
  )
  return (
    <Page
      title="Mailboxes"
      about="Each is an address to send from; its id is the mailboxId of a send."
      actions={
        mayWrite && (
          <Button look="primary" onClick={() => setAdding(true)}>
            Add a mailbox
          </Button>
        )
      }
    >
      <FormMistake error={enable.error} />
      <Card flush>
        <Answered query={query}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty icon={AtSign} title="No mailbox yet.">
                A mailbox lies on a{' '}
                <Link to="/domains" className="text-accent underline">
                  domain
                </Link>{' '}
                of yours.
              </Empty>
            ) : (
              <Table
                label="Mailboxes"
                rows={items}
                keyOf={({ id }) => id}
                columns={[
                  {
                    head: 'Address',
                    cell: ({ address, name }) => (
                      <span className="grid">
                        <span className="min-w-24 font-medium wrap-anywhere">{address}</span>
                        <UnicodeName of={address} />
                        {name !== undefined && <span className="text-xs wrap-anywhere text-soft">{name}</span>}
                      </span>
                    ),
                  },
                  {
                    head: 'State',
                    cell: ({ status, domain }) => {
                      const waitsFor = domains.data?.items.find((each) => each.name === domain && !maySend(each))
                      if (status !== 'active' || waitsFor === undefined) return <StateBadge state={status} />
                      return (
                        <Link
                          to="/domains/$domainId"
                          params={{ domainId: waitsFor.id }}
                          className="text-accent underline"
                        >
                          Domain not verified
                        </Link>
                      )
                    },
                  },
                  { head: 'Id', cell: ({ id }) => <Id id={id} />, wideOnly: true },
                  {
                    head: '',
                    align: 'right',
                    cell: (mailbox) =>
                      mayWrite && (
                        <span className="flex flex-wrap justify-end">
                          <Button
                            look="quiet"
                            busy={enable.isPending && enable.variables?.id === mailbox.id}
                            onClick={() =>
                              mailbox.status === 'active' ? setDisabling(mailbox) : enable.mutate(mailbox)
                            }
                            of={mailbox.address}
                          >
                            {mailbox.status === 'active' ? 'Disable' : 'Enable'}
                          </Button>
                          <Button look="quiet" of={mailbox.address} onClick={() => setNaming(mailbox)}>
                            Name
                          </Button>
                          <Button look="quiet" of={mailbox.address} onClick={() => setRemoving(mailbox)}>
                            Remove
                          </Button>
                        </span>
                      ),
                  },
                ]}
              />
            )
          }
        </Answered>
      </Card>
      <Confirm
        title="Disable this mailbox?"
        action="Disable"
        of={disabling}
        close={() => setDisabling(undefined)}
        by={disable}
        onConfirm={disable.mutate}
      >
        Mail from {disabling?.address} is refused at once, and what still waits to be sent from it fails for good.
      </Confirm>
      <Confirm
        title="Remove this mailbox?"
        action="Remove"
        of={removing}
        close={() => setRemoving(undefined)}
        by={remove}
        onConfirm={remove.mutate}
      >
        Mail from {removing?.address} is refused at once, and what still waits to be sent from it fails for good. What
        was sent stays to be read. The address can be added again, with a new id.
      </Confirm>
      {naming !== undefined && (
        <Dialog title={`The name of ${naming.address}`} open onOpenChange={() => setNaming(undefined)}>
          <DialogForm
            action="Save"
            by={rename}
            fields={['name']}
            onSubmit={(form) => rename.mutate({ id: naming.id, name: textIn(form, 'name').trim() })}
          >
            <TextField
              label="Name"
              name="name"
              defaultValue={naming.name ?? ''}
              hint="What recipients see beside the address. Left empty, they see the address alone."
              mistake={mistakeIn(rename.error, 'name')}
            />
          </DialogForm>
        </Dialog>
      )}
      <Dialog title="Add a mailbox" open={adding} onOpenChange={setAdding}>
        <DialogForm
          action="Add"
          by={add}
          fields={['address', 'name']}
          onSubmit={(form) => {
            const name = textIn(form, 'name').trim()
            add.mutate({ address: textIn(form, 'address').trim(), ...(name !== '' && { name }) })
          }}
        >
          <AddressField name="address" placeholder="receipts@example.org" mistake={mistakeIn(add.error, 'address')} />
          <TextField
            label="Name"
            name="name"
            hint="What recipients see beside the address."
            mistake={mistakeIn(add.error, 'name')}
          />
        </DialogForm>
      </Dialog>
    </Page>
  )
}
