// How programs get in: API keys, SMTP, and the lines to paste.
import { KeyRound } from 'lucide-react'
import { useState } from 'react'
import { ask, useChange, useForgetting, useRead } from '../api.ts'
import { midnight } from '../filters.ts'
import { NoSender, useSender } from '../sender.tsx'
import { useLooking, useMay } from '../session.tsx'
import type { ApiKey, ApiKeyCreated, ListOf } from '../shapes.ts'
import { Button } from '../ui/button.tsx'
import { CopyLine } from '../ui/copy.tsx'
import { Dialog, DialogForm } from '../ui/dialog.tsx'
import { Check, Checks, mistakeIn, TextField, textIn } from '../ui/field.tsx'
import { Card, Page } from '../ui/page.tsx'
import { ShownOnce } from '../ui/shown-once.tsx'
import { Answered, Empty, Loading } from '../ui/states.tsx'
import { SendSnippets } from './first-message.tsx'
import { Revocables, useRevoking } from './revocable.tsx'
import { SmtpCredentials } from './smtp-credentials.tsx'

export function Settings() {
  const sender = useSender()
  const mailbox = sender?.mailbox
  return (
    <Page title="API & SMTP" about="How your programs send.">
      <Keys />
      <SmtpCredentials {...(mailbox !== undefined && { sender: mailbox.address })} />
      <Card title="Send over HTTP" about="Put a key in the place of YOUR_KEY.">
        {sender === undefined ? (
          <Loading />
        ) : mailbox === undefined ? (
          <NoSender waitsFor={sender.waitsFor} />
        ) : (
          <SendSnippets apiKey="YOUR_KEY" mailboxId={mailbox.id} />
        )}
      </Card>
    </Page>
  )
}

function Keys() {
  const query = useRead<ListOf<ApiKey>>(['keys'], '/api/v1/keys')
  const [making, setMaking] = useState(false)
  const mayWrite = useMay('keys.write')
  const revoking = useRevoking<ApiKey>('keys', 'Programs that use it are refused within a second.')
  return (
    <Card
      title="API keys"
      about="For programs on servers, never for browsers. The secret is shown once."
      flush
      actions={
        mayWrite && (
          <Button look="primary" onClick={() => setMaking(true)}>
            Create a key
          </Button>
        )
      }
    >
      <Answered query={query}>
        {({ items }) => (
          <Revocables
            label="API keys"
            items={items}
            empty={<Empty icon={KeyRound} title={items.length === 0 ? 'No key yet.' : 'No key that works.'} />}
            columns={[
              { head: 'Name', cell: ({ name }) => <span className="font-medium">{name}</span> },
              {
                head: 'Key',
                cell: ({ prefix }) => <code className="font-mono text-xs text-soft">{prefix}…</code>,
                wideOnly: true,
              },
              {
                head: 'May',
                cell: ({ scopes }) => <span className="text-xs text-soft">{scopes.join(', ')}</span>,
                wideOnly: true,
              },
              ...revoking.columns,
            ]}
          />
        )}
      </Answered>
      <CreateKey open={making} onOpenChange={setMaking} />
      {revoking.question}
    </Card>
  )
}

const commonScopes: Readonly<Record<string, string>> = {
  'mail.send': 'Send messages',
  'mail.status.read': 'Read the status of messages',
}

function CreateKey({ open, onOpenChange }: { readonly open: boolean; readonly onOpenChange: (open: boolean) => void }) {
  const { workspace } = useLooking()
  const own = workspace?.scopes ?? []
  const others = own.filter((scope) => !(scope in commonScopes))
  const make = useChange(
    (given: { name: string; scopes: string[]; expiresAt?: string }) =>
      ask<ApiKeyCreated>('POST', '/api/v1/keys', given),
    ['keys'],
  )
  useForgetting(open, make)
  if (make.data !== undefined)
    return (
      <Dialog
        title="Your new key"
        description="Copy it now. It is shown this once and cannot be read again."
        open={open}
        onOpenChange={onOpenChange}
      >
        <ShownOnce close={() => onOpenChange(false)}>
          <CopyLine text={make.data.key} secret />
        </ShownOnce>
      </Dialog>
    )
  return (
    <Dialog title="Create a key" open={open} onOpenChange={onOpenChange}>
      <DialogForm
        action="Create"
        by={make}
        fields={['name', 'expiresAt', 'scopes']}
        onSubmit={(form) => {
          const lastDay = textIn(form, 'lastDay')
          make.mutate({
            name: textIn(form, 'name'),
            scopes: form.getAll('scope').map(String),
            ...(lastDay !== '' && { expiresAt: midnight(lastDay, 1) }),
          })
        }}
      >
        <TextField
          label="Name"
          name="name"
          required
          maxLength={200}
          hint="What it is for: “web shop”, “billing”."
          mistake={mistakeIn(make.error, 'name')}
        />
        <TextField
          label="Last day"
          name="lastDay"
          type="date"
          max="9999-12-30"
          hint="It ends by itself at the end of this day. Left empty, it works until it is revoked."
          mistake={mistakeIn(make.error, 'expiresAt')}
        />
        <Checks legend="It may" chosen={make.variables?.scopes} mistake={mistakeIn(make.error, 'scopes')}>
          {Object.entries(commonScopes).map(
            ([scope, words]) =>
              own.includes(scope) && (
                <Check key={scope} name="scope" value={scope} label={words} hint={scope} defaultChecked />
              ),
          )}
          <details className="text-sm">
            <summary className="text-soft">More</summary>
            <div className="mt-2 grid gap-1.5 sm:grid-cols-2">
              {others.map((scope) => (
                <Check key={scope} name="scope" value={scope} label={scope} />
              ))}
            </div>
          </details>
        </Checks>
      </DialogForm>
    </Dialog>
  )
}
