// A person's own things: name, password, second factor, passkeys, sessions.
import type { UseMutationResult } from '@tanstack/react-query'
import { KeyRound, ShieldCheck } from 'lucide-react'
import { QRCodeSVG } from 'qrcode.react'
import { useState } from 'react'
import { ask, useChange, useForgetting, useRead } from '../api.ts'
import { browserIn } from '../browser.ts'
import { makePasskey, passkeysArePossible } from '../passkeys.ts'
import { useLooking } from '../session.tsx'
import type { ListOf, SessionInfo } from '../shapes.ts'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { CopyLine, Snippet } from '../ui/copy.tsx'
import { Confirm, Dialog, DialogActions, DialogForm } from '../ui/dialog.tsx'
import {
  Form,
  FormMistake,
  LoginName,
  mistakeIn,
  NewPassword,
  PresentPassword,
  Save,
  TextField,
  textIn,
} from '../ui/field.tsx'
import { Card, Facts, Page } from '../ui/page.tsx'
import { ShownOnce } from '../ui/shown-once.tsx'
import { Answered } from '../ui/states.tsx'
import { Table } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

export function AccountPage() {
  const { session } = useLooking()
  return (
    <Page title="Account" about={session.email}>
      <div className="grid items-start gap-6 lg:grid-cols-2">
        <Person />
        <Password />
        <SecondFactor />
        <Passkeys />
      </div>
      <Sessions />
    </Page>
  )
}

function Person() {
  const { session } = useLooking()
  const rename = useChange((name: string) => ask('PATCH', '/api/v1/account', { name }), ['session'])
  return (
    <Card title="You">
      <Form saves={rename} onSubmit={(form) => rename.mutate(textIn(form, 'name'))}>
        <TextField
          label="Name"
          name="name"
          required
          defaultValue={session.name ?? ''}
          autoComplete="name"
          mistake={mistakeIn(rename.error, 'name')}
        />
        <Facts
          rows={[
            ['E-mail', session.email],
            ['Operator', session.operator ? 'Yes' : 'No'],
          ]}
        />
        <Save by={rename} fields={['name']} />
      </Form>
    </Card>
  )
}

function Password() {
  const { session } = useLooking()
  const change = useChange(
    (given: { password: string; newPassword: string }) => ask('POST', '/api/v1/account/password', given),
    ['sessions'],
  )
  return (
    <Card title="Password" about="Changing it ends all your other sessions.">
      <Form
        saves={change}
        onSubmit={(form, empty) =>
          change.mutate(
            { password: textIn(form, 'password'), newPassword: textIn(form, 'newPassword') },
            { onSuccess: empty },
          )
        }
      >
        <LoginName email={session.email} />
        <PresentPassword label="Present password" mistake={mistakeIn(change.error, 'password')} />
        <NewPassword label="New password" name="newPassword" mistake={mistakeIn(change.error, 'newPassword')} />
        <Save by={change} fields={['password', 'newPassword']} action="Change" done="Changed." />
      </Form>
    </Card>
  )
}

/** A dialog that asks for the password before something that guards the account. */
function Guarded({
  title,
  open,
  onOpenChange,
  by,
  action,
}: {
  readonly title: string
  readonly open: boolean
  readonly onOpenChange: (open: boolean) => void
  /** The change, which takes the password. */
  readonly by: Pick<UseMutationResult<unknown, Error, string>, 'isPending' | 'error' | 'mutate'>
  readonly action: string
}) {
  const { session } = useLooking()
  return (
    <Dialog title={title} description="First your present password." open={open} onOpenChange={onOpenChange}>
      <DialogForm
        action={action}
        by={by}
        fields={['password']}
        onSubmit={(form) => by.mutate(textIn(form, 'password'))}
      >
        <LoginName email={session.email} />
        <PresentPassword mistake={mistakeIn(by.error, 'password')} />
      </DialogForm>
    </Dialog>
  )
}

function SecondFactor() {
  const { session } = useLooking()
  const [open, setOpen] = useState(false)
  const begin = useChange(
    (password: string) => ask<{ secret: string; uri: string }>('POST', '/api/v1/account/two-factor', { password }),
    [],
  )
  const confirm = useChange(
    (code: string) => ask<{ recoveryCodes: string[] }>('POST', '/api/v1/account/two-factor/confirm', { code }),
    ['session'],
  )
  const end = useChange(
    (password: string) => ask('POST', '/api/v1/account/two-factor/disable', { password }),
    ['session'],
    () => setOpen(false),
  )
  useForgetting(open, begin)
  useForgetting(open, confirm)
  useForgetting(open, end)
  return (
    <Card
      title="Second factor"
      about="A code from an app on your phone, asked for whenever you sign in with your password."
      actions={
        session.twoFactor && (
          <Badge tone="good" icon={ShieldCheck}>
            On
          </Badge>
        )
      }
    >
      <div className="grid gap-3">
        {session.twoFactor && (
          <p className="text-sm text-soft">
            {session.recoveryCodesLeft === 1 ? '1 recovery code' : `${session.recoveryCodesLeft} recovery codes`} left.
            {session.recoveryCodesLeft === 0 && ' Switched off and set up again, it gives new ones.'}
          </p>
        )}
        <div>
          <Button onClick={() => setOpen(true)}>{session.twoFactor ? 'Switch it off…' : 'Set it up…'}</Button>
        </div>
      </div>
      {confirm.data !== undefined ? (
        <Dialog
          title="Keep these codes"
          description="Each opens your account once when the phone is lost. They are shown this once."
          open={open}
          onOpenChange={setOpen}
        >
          <ShownOnce action="I have them" close={() => setOpen(false)}>
            <Snippet text={confirm.data.recoveryCodes.join('\n')} label="recovery codes" />
          </ShownOnce>
        </Dialog>
      ) : begin.data !== undefined ? (
        <Dialog
          title="Add it to your app"
          description="Scan this with an authenticator app, or give it the secret below. Then type the code that it shows."
          open={open}
          onOpenChange={setOpen}
        >
          {/* Dark on light with its margin in the dark theme, too: else some cameras do not see it. */}
          <QRCodeSVG
            value={begin.data.uri}
            size={192}
            marginSize={4}
            title="QR code of the secret"
            className="mx-auto rounded-md border border-line"
          />
          <CopyLine text={begin.data.secret} secret />
          <p className="text-sm">
            <a href={begin.data.uri} className="text-accent underline">
              Open in an app on this device
            </a>
          </p>
          <Form onSubmit={(form) => confirm.mutate(textIn(form, 'code'))}>
            <TextField
              label="Code"
              name="code"
              required
              inputMode="numeric"
              autoComplete="one-time-code"
              mistake={mistakeIn(confirm.error, 'code')}
            />
            <FormMistake error={confirm.error} fields={['code']} />
            <DialogActions>
              <Button look="primary" type="submit" busy={confirm.isPending}>
                Switch on
              </Button>
            </DialogActions>
          </Form>
        </Dialog>
      ) : session.twoFactor ? (
        <Guarded title="Switch the second factor off" open={open} onOpenChange={setOpen} by={end} action="Switch off" />
      ) : (
        <Guarded title="Set up a second factor" open={open} onOpenChange={setOpen} by={begin} action="Go on" />
      )}
    </Card>
  )
}

function Passkeys() {
  const { session } = useLooking()
  const [open, setOpen] = useState(false)
  const add = useChange(
    (password: string) => makePasskey(password),
    ['session'],
    () => setOpen(false),
  )
  useForgetting(open, add)
  const [removing, setRemoving] = useState<(typeof session.passkeys)[number]>()
  const remove = useChange(
    (id: string) => ask('DELETE', `/api/v1/account/passkeys/${encodeURIComponent(id)}`),
    ['session'],
    () => setRemoving(undefined),
  )
  return (
    <Card title="Passkeys" about="Sign in with this device, a phone or a security key, without a password.">
      <div className="grid gap-3">
        {session.passkeys.length > 0 && (
          <ul className="grid gap-1">
            {session.passkeys.map((passkey) => (
              <li key={passkey.id} className="flex items-center gap-2 text-sm">
                <KeyRound aria-hidden className="size-4 text-soft" />
                <span className="min-w-0 flex-1 truncate">{passkey.name}</span>
                <span className="text-soft">
                  <Time at={passkey.createdAt} />
                </span>
                <Button look="quiet" of={passkey.name} onClick={() => setRemoving(passkey)}>
                  Remove
                </Button>
              </li>
            ))}
          </ul>
        )}
        {passkeysArePossible() ? (
          <div>
            <Button onClick={() => setOpen(true)}>Add a passkey…</Button>
          </div>
        ) : (
          <p className="text-sm text-soft">This browser has none, or the page is not reached over HTTPS.</p>
        )}
      </div>
      <Confirm
        title={`Remove the passkey “${removing?.name ?? ''}”?`}
        action="Remove"
        of={removing}
        close={() => setRemoving(undefined)}
        by={remove}
        onConfirm={({ id }) => remove.mutate(id)}
      >
        Nobody signs in with it any more. The device keeps it until you delete it there, too.
      </Confirm>
      <Guarded title="Add a passkey" open={open} onOpenChange={setOpen} by={add} action="Go on" />
    </Card>
  )
}

function Sessions() {
  const query = useRead<ListOf<SessionInfo>>(['sessions'], '/api/v1/account/sessions')
  const end = useChange((id: string) => ask('DELETE', `/api/v1/account/sessions/${id}`), ['sessions'])
  return (
    <Card title="Sessions" about="Where you are signed in." flush>
      <FormMistake error={end.error} />
      <Answered query={query}>
        {({ items }) => (
          <Table
            label="Sessions"
            rows={items}
            keyOf={({ id }) => id}
            columns={[
              {
                head: 'Browser',
                cell: ({ agent }) => (
                  <span title={agent} className="block max-w-72 truncate">
                    {browserIn(agent)}
                  </span>
                ),
              },
              {
                head: 'From',
                cell: ({ address }) => <code className="font-mono text-xs">{address}</code>,
                wideOnly: true,
              },
              { head: 'Last used', cell: ({ lastSeenAt }) => <Time at={lastSeenAt} /> },
              {
                head: '',
                align: 'right',
                cell: ({ id, current, agent, address }) =>
                  current ? (
                    <Badge tone="accent">This one</Badge>
                  ) : (
                    <Button look="quiet" busy={end.isPending && end.variables === id} onClick={() => end.mutate(id)}>
                      End
                      <span className="sr-only">
                        {' '}
                        the session of {browserIn(agent)} at {address}
                      </span>
                    </Button>
                  ),
              },
            ]}
          />
        )}
      </Answered>
    </Card>
  )
}
