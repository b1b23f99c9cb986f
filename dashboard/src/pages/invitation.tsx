// Somebody was invited: what for, and the way in.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { ask, useChange } from '../api.ts'
import { linkIsCut, tokenInLink } from '../link-token.ts'
import { kept, remember } from '../session.tsx'
import { Button } from '../ui/button.tsx'
import { Form, FormMistake, LoginName, mistakeIn, NewPassword, TextField, textIn } from '../ui/field.tsx'
import { Answered } from '../ui/states.tsx'
import { Outside } from './outside.tsx'

interface Invited {
  readonly email: string
  readonly role: string
  readonly workspaceId: string
  readonly workspaceName: string
  readonly hasAccount: boolean
}

export function InvitationPage() {
  const [token] = useState(() => tokenInLink(location))
  const navigate = useNavigate()
  const client = useQueryClient()
  const query = useQuery({
    queryKey: ['invitation', token],
    queryFn: () =>
      token === ''
        ? Promise.reject(new Error(linkIsCut))
        : ask<Invited>('POST', '/api/v1/invitations/lookup', { token }),
    retry: false,
  })
  const accept = useChange(
    (given: { name?: string; password?: string }) =>
      kept(ask('POST', '/api/v1/invitations/accept', { token, ...given })),
    ['invitation'],
    () => {
      client.clear()
      // Who is in several sees the one that this is about.
      if (query.data !== undefined) remember(query.data.workspaceId)
      void navigate({ to: '/', replace: true })
    },
  )
  return (
    <Outside title="You are invited">
      <Answered query={query}>
        {({ email, role, workspaceName, hasAccount }) => (
          <Form
            onSubmit={(form) => {
              const name = textIn(form, 'name').trim()
              accept.mutate(hasAccount ? {} : { password: textIn(form, 'password'), ...(name !== '' && { name }) })
            }}
          >
            <p>
              To <strong>{workspaceName}</strong> as {role}, with the address <strong>{email}</strong>.
            </p>
            {hasAccount ? (
              <p className="text-sm text-soft">
                You have an account:{' '}
                <Link
                  to="/sign-in"
                  search={{ to: location.pathname }}
                  hash={new URLSearchParams({ token }).toString()}
                  className="text-accent underline"
                >
                  sign in
                </Link>{' '}
                with it first, then accept.
              </p>
            ) : (
              <>
                <TextField
                  label="Your name"
                  name="name"
                  autoComplete="name"
                  mistake={mistakeIn(accept.error, 'name')}
                />
                <LoginName email={email} />
                <NewPassword label="Choose a password" name="password" mistake={mistakeIn(accept.error, 'password')} />
              </>
            )}
            <FormMistake error={accept.error} fields={['name', 'password']} />
            <Button look="primary" type="submit" busy={accept.isPending}>
              Accept
            </Button>
          </Form>
        )}
      </Answered>
      {query.isError && (
        <Link to="/sign-in" className="justify-self-center text-sm text-soft underline">
          To the sign-in
        </Link>
      )}
    </Outside>
  )
}
