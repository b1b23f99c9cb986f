// A forgotten password: ask for the mail, then choose a new one with its link.
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { ask, useChange } from '../api.ts'
import { linkIsCut, tokenInLink } from '../link-token.ts'
import { Button } from '../ui/button.tsx'
import { AddressField, Form, FormMistake, mistakeIn, NewPassword, textIn } from '../ui/field.tsx'
import { Outside } from './outside.tsx'

export function ForgotPassword() {
  const askFor = useChange((email: string) => ask('POST', '/api/v1/password-resets', { email }), [])
  if (askFor.isSuccess)
    return (
      <Outside
        title="Look into your mail"
        about="If there is an account with this address, a link is on its way. It is good for an hour."
      >
        <Link to="/sign-in" className="text-accent underline">
          Back to the sign-in
        </Link>
      </Outside>
    )
  return (
    <Outside title="Forgot the password?" about="You get a mail with a link to choose a new one.">
      <Form onSubmit={(form) => askFor.mutate(textIn(form, 'email').trim())}>
        <AddressField
          label="E-mail"
          name="email"
          autoFocus
          autoComplete="username"
          mistake={mistakeIn(askFor.error, 'email')}
        />
        <FormMistake error={askFor.error} fields={['email']} />
        <Button look="primary" type="submit" busy={askFor.isPending}>
          Send the link
        </Button>
        <Link to="/sign-in" className="justify-self-center text-sm text-soft underline">
          Back to the sign-in
        </Link>
      </Form>
    </Outside>
  )
}

export function ResetPassword() {
  const [token] = useState(() => tokenInLink(location))
  const navigate = useNavigate()
  const reset = useChange(
    (password: string) => ask('POST', '/api/v1/password-resets/confirm', { token, password }),
    ['session'],
    () => void navigate({ to: '/sign-in', search: { why: 'reset' }, replace: true }),
  )
  const another = (
    <Link to="/forgot-password" className="justify-self-center text-sm text-soft underline">
      Ask for another link
    </Link>
  )
  if (token === '')
    return (
      <Outside title="Choose a new password" about={linkIsCut}>
        {another}
      </Outside>
    )
  return (
    <Outside title="Choose a new password" about="All your sessions end; then sign in with the new one.">
      <Form onSubmit={(form) => reset.mutate(textIn(form, 'password'))}>
        <NewPassword label="New password" name="password" autoFocus mistake={mistakeIn(reset.error, 'password')} />
        <FormMistake error={reset.error} fields={['password']} />
        <Button look="primary" type="submit" busy={reset.isPending}>
          Change it
        </Button>
        {another}
      </Form>
    </Outside>
  )
}
