// Logins for programs that speak SMTP: where to, and the lines to paste.
import { Server } from 'lucide-react'
import { useState } from 'react'
import { ask, useChange, useForgetting, useRead } from '../api.ts'
import { useMay } from '../session.tsx'
import type { SmtpCredential, SmtpCredentialCreated, SmtpCredentials as Credentials } from '../shapes.ts'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy.tsx'
import { Dialog, DialogForm } from '../ui/dialog.tsx'
import { mistakeIn, TextField, textIn } from '../ui/field.tsx'
import { Card, Facts } from '../ui/page.tsx'
import { ShownOnce } from '../ui/shown-once.tsx'
import { Answered, Empty } from '../ui/states.tsx'
import { Revocables, useRevoking } from './revocable.tsx'
import { SmtpSnippets } from './smtp-snippets.tsx'

export function SmtpCredentials({ sender }: { readonly sender?: string }) {
  const query = useRead<Credentials>(['smtp-credentials'], '/api/v1/smtp-credentials')
  const [making, setMaking] = useState(false)
  const mayWrite = useMay('smtp-credentials.write')
  const revoking = useRevoking<SmtpCredential>(
    'smtp-credentials',
    'Programs that use it are refused within a second, in open connections too.',
  )
  return (
    <Card
      title="SMTP credentials"
      about="For programs that hand mail in over SMTP. The password is shown once."
      flush
      actions={mayWrite && <Button onClick={() => setMaking(true)}>Create a credential</Button>}
    >
      <Answered query={query}>
        {({ items, server }) => (
          <>
            <div className="border-y border-line bg-sunken/50 px-4 py-3 sm:px-5">
              <Where server={server} />
            </div>
            <Revocables
              label="SMTP credentials"
              items={items}
              empty={
                <Empty
                  icon={Server}
                  title={items.length === 0 ? 'No SMTP credential yet.' : 'No SMTP credential that works.'}
                />
              }
              columns={[
                { head: 'Name', cell: ({ name }) => <span className="font-medium">{name}</span> },
                {
                  head: 'Username',
                  cell: ({ username }) => (
                    <span className="flex items-center gap-1">
                      <code className="font-mono text-xs text-soft">{username}</code>
                      <CopyButton text={username} label="Copy the username" />
                    </span>
                  ),
                },
                ...revoking.columns,
              ]}
            />
          </>
        )}
      </Answered>
      <CreateCredential open={making} onOpenChange={setMaking} sender={sender ?? 'you@example.org'} />
      {revoking.question}
    </Card>
  )
}

function Where({ server: { host, port, tlsPort } }: { readonly server: Credentials['server'] }) {
  return (
    <Facts
      rows={[
        ['Host', <Copied key="host" text={host} />],
        ['Ports', `${port} with STARTTLS, ${tlsPort} with TLS from the first byte`],
      ]}
    />
  )
}

function Copied({ text }: { readonly text: string }) {
  return (
    <span className="inline-flex items-center gap-1">
      <code className="font-mono text-xs break-all">{text}</code>
      <CopyButton text={text} />
    </span>
  )
}

function CreateCredential({
  open,
  onOpenChange,
  sender,
}: {
  readonly open: boolean
  readonly onOpenChange: (open: boolean) => void
  readonly sender: string
}) {
  const make = useChange(
    (name: string) => ask<SmtpCredentialCreated>('POST', '/api/v1/smtp-credentials', { name }),
    ['smtp-credentials'],
  )
  useForgetting(open, make)
  if (make.data !== undefined) return <Made made={make.data} sender={sender} open={open} close={onOpenChange} />
  return (
    <Dialog title="Create an SMTP credential" open={open} onOpenChange={onOpenChange}>
      <DialogForm
        action="Create"
        by={make}
        fields={['name']}
        onSubmit={(form) => make.mutate(textIn(form, 'name').trim())}
      >
        <TextField
          label="Name"
          name="name"
          required
          maxLength={200}
          hint="What it is for: “printer”, “old shop”."
          mistake={mistakeIn(make.error, 'name')}
        />
      </DialogForm>
    </Dialog>
  )
}

function Made({
  made: { username, password, server },
  sender,
  open,
  close,
}: {
  readonly made: SmtpCredentialCreated
  readonly sender: string
  readonly open: boolean
  readonly close: (to: boolean) => void
}) {
  return (
    <Dialog
      title="Your new SMTP credential"
      description="Copy the password now. It is shown this once and cannot be read again."
      open={open}
      onOpenChange={close}
    >
      <Where server={server} />
      <ShownOnce close={() => close(false)}>
        <Facts
          rows={[
            ['Username', <Copied key="username" text={username} />],
            ['Password', <Copied key="password" text={password} />],
          ]}
        />
        <SmtpSnippets way={{ username, password, server, sender }} />
      </ShownOnce>
    </Dialog>
  )
}
