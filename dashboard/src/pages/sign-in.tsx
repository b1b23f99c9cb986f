// The way in: e-mail and password, then the second factor where there is one.
import { useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError, ask, useChange } from '../api.ts'
import { Button } from '../ui/button.tsx'
import { AddressField, Form, FormMistake, mistakeIn, PresentPassword, TextField, textIn } from '../ui/field.tsx'
import { passkeysArePossible, signInWithPasskey } from '../passkeys.ts'
import { kept } from '../session.tsx'
import { Outside } from './outside.tsx'

interface Given {
  readonly email: string
  readonly password: string
  readonly code?: string
}

const reasons = {
  ended: 'Your session has ended. Sign in to go on where you were; what was not saved yet is to be entered again.',
  reset: 'Your password is changed. Sign in with the new one.',
} as const

export function SignIn() {
  const { to, why } = useSearch({ from: '/sign-in' })
  const navigate = useNavigate()
  const client = useQueryClient()
  const [asksCode, setAsksCode] = useState(false)
  const entered = () => {
    client.clear()
    // What is behind `#` is the page's, perhaps a token: it comes along. The way back leads past the sign-in.
    const hash = to?.includes('#') === true ? '' : location.hash
    void navigate({ to: `${to ?? '/'}${hash}`, replace: true })
  }
  const enter = useChange((given: Given) => kept(ask('POST', '/api/v1/session', given)), [], entered)
  const byPasskey = useChange(() => kept(signInWithPasskey()), [], entered)
  const wantsCode = enter.error instanceof ApiError && enter.error.code === 'second_factor_required'
  if (wantsCode && !asksCode) setAsksCode(true)
  return (
    <Outside title="Sign in">
      {why !== undefined && (
        <p role="status" className="rounded-lg bg-sunken px-3 py-2 text-sm">
          {reasons[why]}
        </p>
      )}
      <Form
        onSubmit={(form) => {
          const text = (name: string) => textIn(form, name)
          enter.mutate({ email: text('email'), password: text('password'), ...(asksCode && { code: text('code') }) })
        }}
      >
        <AddressField
          label="E-mail"
          name="email"
          autoComplete="username"
          autoFocus
          onChange={() => {
            // Another person may have no second factor, or another one.
            if (!asksCode) return
            setAsksCode(false)
            enter.reset()
          }}
          mistake={mistakeIn(enter.error, 'email')}
        />
        <PresentPassword mistake={mistakeIn(enter.error, 'password')} />
        {asksCode && (
          <TextField
            label="Code"
            name="code"
            inputMode="numeric"
            autoComplete="one-time-code"
            required
            autoFocus
            hint="From your authenticator, or one of your recovery codes."
            // To be asked for it is no mistake.
            mistake={wantsCode ? undefined : mistakeIn(enter.error, 'code')}
          />
        )}
        {!(wantsCode || enter.isIdle) && <FormMistake error={enter.error} fields={['email', 'password', 'code']} />}
        <Button look="primary" type="submit" busy={enter.isPending}>
          Sign in
        </Button>
        {passkeysArePossible() && (
          <Button busy={byPasskey.isPending} onClick={() => byPasskey.mutate(undefined)}>
            Sign in with a passkey
          </Button>
        )}
        <FormMistake error={byPasskey.error} />
        <Link to="/forgot-password" className="justify-self-center text-sm text-soft underline">
          Forgot the password?
        </Link>
      </Form>
    </Outside>
  )
}
