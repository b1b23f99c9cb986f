// Persons: signing in and out, their own account, second factors, password resets, invitations from the side of the invited.
import { Type } from 'typebox'
import { closed, email, list, endpointsOf, name, time, uuid } from './managed.ts'
import { role } from './members.ts'

const password = (description: string) => Type.String({ minLength: 1, maxLength: 200, description })
const token = Type.String({ minLength: 1, maxLength: 200, description: 'From the link in the mail.' })
const code = Type.String({ minLength: 1, maxLength: 40, description: 'Of the authenticator app, or a recovery code.' })
const answer = Type.Object(
  {},
  { additionalProperties: true, description: "The browser's answer, as JSON (WebAuthn 3, `toJSON`)." },
)

const Passkey = Type.Object({
  id: Type.String({ description: "The credential's id, base64url." }),
  name: Type.String(),
  createdAt: time('When it was added.'),
  lastUsedAt: Type.Optional(time('Last sign-in with it.')),
})
const PasskeyQuestion = Type.Object({
  id: uuid('Names the question in the answer.'),
  options: Type.Unknown({ description: 'For `navigator.credentials`, as JSON.' }),
})

export const Account = Type.Object(
  {
    id: uuid('The person.'),
    email: email('Of the person.'),
    name: Type.Optional(Type.String()),
    operator: Type.Boolean({ description: 'May use the endpoints under /api/v1/operator.' }),
    twoFactor: Type.Boolean({ description: 'Signs in with a code.' }),
    recoveryCodesLeft: Type.Integer(),
    passkeys: Type.Array(Passkey),
    createdAt: time('When the account was made.'),
    workspaces: Type.Array(
      Type.Object({
        workspaceId: uuid('For the header X-Posthorn-Workspace.'),
        name: Type.String(),
        role,
        scopes: Type.Array(Type.String(), { description: 'What the role may do.' }),
      }),
    ),
  },
  { description: 'The person who is signed in.' },
)
export const SessionInfo = Type.Object(
  {
    id: uuid('The session.'),
    createdAt: time('When it was opened.'),
    lastSeenAt: time('Last use, to the minute.'),
    expiresAt: time('When it ends at the latest; it ends earlier after 7 days without use.'),
    address: Type.String({ description: 'From where it was opened.' }),
    agent: Type.String({ description: 'What the browser called itself.' }),
    current: Type.Boolean({ description: 'The one that asks.' }),
  },
  { description: 'A session of the person.' },
)

const anyones = endpointsOf('Account', 'anyone')
const mine = endpointsOf('Account', 'session')
const passwordAsked = {
  401: 'No session (`not_signed_in`), or the password is wrong (`wrong_credentials`).',
  429: 'Too many wrong attempts (`too_many_attempts`).',
}
const guessed = 'Wrong, stale or used (`wrong_credentials`).'
export const people = {
  signIn: anyones({
    endpoint: 'POST /api/v1/session',
    operationId: 'signIn',
    summary: 'Sign in',
    description:
      'Sets the session cookie. With a second factor the first try without `code` answers 401 `second_factor_required`: repeat it with `code`.',
    body: closed({
      email: Type.String({ minLength: 1, maxLength: 254 }),
      password: password('The password.'),
      code: Type.Optional(code),
    }),
    ok: [200, 'Signed in.', Account],
    may: {
      401: 'E-mail address, password or code are wrong (`wrong_credentials`), or the code is missing (`second_factor_required`).',
      429: 'Too many wrong attempts (`too_many_attempts`).',
    },
  }),
  readAccount: mine({
    endpoint: 'GET /api/v1/session',
    operationId: 'getSession',
    summary: 'Who is signed in',
    ok: [200, 'The person, with the workspaces and what the role in each may do.', Account],
  }),
  signOut: mine({
    endpoint: 'DELETE /api/v1/session',
    operationId: 'signOut',
    summary: 'Sign out',
    ok: [204, 'The session has ended.'],
  }),
  listSessions: mine({
    endpoint: 'GET /api/v1/account/sessions',
    operationId: 'listSessions',
    summary: 'List your sessions',
    ok: [200, 'Living sessions, newest first.', list(SessionInfo, 'Sessions.')],
  }),
  endSession: mine({
    endpoint: 'DELETE /api/v1/account/sessions/{sessionId}',
    operationId: 'endSession',
    summary: 'End one of your sessions',
    ok: [204, 'Ended.'],
  }),
  renameAccount: mine({
    endpoint: 'PATCH /api/v1/account',
    operationId: 'updateAccount',
    summary: 'Change your name',
    body: closed({ name: name('Your name.') }),
    ok: [200, 'The account.', Account],
  }),
  changePassword: mine({
    endpoint: 'POST /api/v1/account/password',
    operationId: 'changePassword',
    summary: 'Change your password',
    description: 'Ends all other sessions.',
    body: closed({ password: password('The present one.'), newPassword: password('At least 10 characters.') }),
    ok: [204, 'Changed.'],
    may: passwordAsked,
  }),
  beginTwoFactor: mine({
    endpoint: 'POST /api/v1/account/two-factor',
    operationId: 'beginTwoFactor',
    summary: 'Begin to set up a second factor',
    body: closed({ password: password('The present one.') }),
    ok: [
      200,
      'For the authenticator app; shown this once, in force after it was confirmed.',
      Type.Object({
        secret: Type.String({ description: 'Base32.' }),
        uri: Type.String({ description: '`otpauth://`, for a QR code.' }),
      }),
    ],
    may: {
      ...passwordAsked,
      409: 'It is on already (`conflict`).',
    },
  }),
  confirmTwoFactor: mine({
    endpoint: 'POST /api/v1/account/two-factor/confirm',
    operationId: 'confirmTwoFactor',
    summary: 'Put the second factor in force',
    body: closed({ code: Type.String({ minLength: 1, maxLength: 40, description: 'Of the app.' }) }),
    ok: [
      200,
      'In force.',
      Type.Object({ recoveryCodes: Type.Array(Type.String(), { description: 'Each good once; shown this once.' }) }),
    ],
    may: {
      409: 'There is nothing to confirm (`conflict`).',
      429: 'Too many wrong codes; begin anew (`too_many_attempts`).',
    },
  }),
  endTwoFactor: mine({
    endpoint: 'POST /api/v1/account/two-factor/disable',
    operationId: 'disableTwoFactor',
    summary: 'Switch the second factor off',
    body: closed({ password: password('The present one.') }),
    ok: [204, 'Off.'],
    may: passwordAsked,
  }),
  beginPasskey: mine({
    endpoint: 'POST /api/v1/account/passkeys/options',
    operationId: 'beginPasskey',
    summary: 'Begin to add a passkey',
    body: closed({ password: password('The present one.') }),
    ok: [200, 'A question for the authenticator.', PasskeyQuestion],
    may: { ...passwordAsked, 409: 'You have as many passkeys as one may have (`conflict`).' },
  }),
  addPasskey: mine({
    endpoint: 'POST /api/v1/account/passkeys',
    operationId: 'addPasskey',
    summary: 'Add a passkey',
    body: closed({ id: uuid('Of the question.'), name: name('Which device it is on.'), response: answer }),
    ok: [201, 'The passkey.', Passkey],
    may: {
      401: 'No session (`not_signed_in`), or the answer does not fit (`wrong_credentials`).',
      409: 'Known already, or too many (`conflict`).',
    },
  }),
  removePasskey: mine({
    endpoint: 'DELETE /api/v1/account/passkeys/{passkeyId}',
    operationId: 'removePasskey',
    summary: 'Remove a passkey',
    texts: { passkeyId: Type.String({ description: "The credential's id." }) },
    ok: [204, 'Removed.'],
  }),
  askForPasskey: anyones({
    endpoint: 'POST /api/v1/session/passkey/options',
    operationId: 'askForPasskey',
    summary: 'Begin to sign in with a passkey',
    ok: [200, 'A question for the authenticator.', PasskeyQuestion],
  }),
  signInWithPasskey: anyones({
    endpoint: 'POST /api/v1/session/passkey',
    operationId: 'signInWithPasskey',
    summary: 'Sign in with a passkey',
    body: closed({ id: uuid('Of the question.'), response: answer }),
    ok: [200, 'Signed in.', Account],
    may: { 401: guessed },
  }),
  askForReset: anyones({
    endpoint: 'POST /api/v1/password-resets',
    operationId: 'askForPasswordReset',
    summary: 'Ask for a new password',
    description:
      'Mails a link that is good for an hour, if there is such an account; the answer is the same if there is none.',
    body: closed({ email: Type.String({ minLength: 1, maxLength: 254 }) }),
    ok: [202, 'If there is such an account, a mail is under way.'],
  }),
  resetPassword: anyones({
    endpoint: 'POST /api/v1/password-resets/confirm',
    operationId: 'resetPassword',
    summary: 'Choose a new password with the link',
    description: 'Ends all sessions of the account. A second factor stays.',
    body: closed({ token, password: password('At least 10 characters.') }),
    ok: [204, 'Changed: sign in with it.'],
    may: { 401: guessed },
  }),
  showInvitation: anyones({
    endpoint: 'POST /api/v1/invitations/lookup',
    operationId: 'lookupInvitation',
    summary: 'What an invitation is for',
    body: closed({ token }),
    ok: [
      200,
      'The invitation.',
      Type.Object({
        email: email('Who is invited.'),
        role,
        workspaceId: uuid('The workspace.'),
        workspaceName: Type.String({ description: 'What its members call it; another may be called so, too.' }),
        hasAccount: Type.Boolean({ description: 'Sign in with it before accepting; else choose a password.' }),
      }),
    ],
    may: { 401: guessed },
  }),
  acceptInvitation: anyones({
    endpoint: 'POST /api/v1/invitations/accept',
    operationId: 'acceptInvitation',
    summary: 'Accept an invitation',
    description:
      'With an account: signed in as the invited address. Without one: with a new password, and then signed in.',
    body: closed({
      token,
      name: Type.Optional(name('Your name.')),
      password: Type.Optional(password('At least 10 characters.')),
    }),
    ok: [200, 'Accepted.', Account],
    may: {
      401: 'Wrong, stale or used (`wrong_credentials`), or not signed in as the invited address (`not_signed_in`).',
      409: 'The account was made meanwhile (`conflict`).',
    },
  }),
}
