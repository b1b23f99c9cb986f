// Persons: signing in and out, their own account, second factors, password resets, invitations from the side of the invited.
import { Type } from 'typebox'
import { closed, email, list, managed, name, time, uuid } from './managed.ts'
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

const tag = 'Account'
const guessed = 'Wrong, stale or used (`wrong_credentials`).'
export const people = {
  signIn: managed({
    endpoint: 'POST /api/v1/session',
    operationId: 'signIn',
    tag,
    summary: 'Sign in',
    description:
      'Sets the session cookie. With a second factor the first try without `code` answers 401 `second_factor_required`: repeat it with `code`.',
    access: 'anyone',
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
  readAccount: managed({
    endpoint: 'GET /api/v1/session',
    operationId: 'getSession',
    tag,
    summary: 'Who is signed in',
    access: 'session',
    ok: [200, 'The person, with the workspaces and what the role in each may do.', Account],
  }),
  signOut: managed({
    endpoint: 'DELETE /api/v1/session',
    operationId: 'signOut',
    tag,
    summary: 'Sign out',
    access: 'session',
    ok: [204, 'The session has ended.'],
  }),
  listSessions: managed({
    endpoint: 'GET /api/v1/account/sessions',
    operationId: 'listSessions',
    tag,
    summary: 'List your sessions',
    access: 'session',
    ok: [200, 'Living sessions, newest first.', list(SessionInfo, 'Sessions.')],
  }),
  endSession: managed({
    endpoint: 'DELETE /api/v1/account/sessions/{sessionId}',
    operationId: 'endSession',
    tag,
    summary: 'End one of your sessions',
    access: 'session',
    ok: [204, 'Ended.'],
  }),
  renameAccount: managed({
    endpoint: 'PATCH /api/v1/account',
    operationId: 'updateAccount',
    tag,
    summary: 'Change your name',
    access: 'session',
    body: closed({ name: name('Your name.') }),
    ok: [200, 'The account.', Account],
  }),
  changePassword: managed({
    endpoint: 'POST /api/v1/account/password',
    operationId: 'changePassword',
    tag,
    summary: 'Change your password',
    description: 'Ends all other sessions.',
    access: 'session',
    body: closed({ password: password('The present one.'), newPassword: password('At least 10 characters.') }),
    ok: [204, 'Changed.'],
    may: {
      401: 'No session (`not_signed_in`), or the password is wrong (`wrong_credentials`).',
      429: 'Too many wrong attempts (`too_many_attempts`).',
    },
  }),
  beginTwoFactor: managed({
    endpoint: 'POST /api/v1/account/two-factor',
    operationId: 'beginTwoFactor',
    tag,
    summary: 'Begin to set up a second factor',
    access: 'session',
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
      401: 'No session (`not_signed_in`), or the password is wrong (`wrong_credentials`).',
      409: 'It is on already (`conflict`).',
      429: 'Too many wrong attempts (`too_many_attempts`).',
    },
  }),
  confirmTwoFactor: managed({
    endpoint: 'POST /api/v1/account/two-factor/confirm',
    operationId: 'confirmTwoFactor',
    tag,
    summary: 'Put the second factor in force',
    access: 'session',
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
  endTwoFactor: managed({
    endpoint: 'POST /api/v1/account/two-factor/disable',
    operationId: 'disableTwoFactor',
    tag,
    summary: 'Switch the second factor off',
    access: 'session',
    body: closed({ password: password('The present one.') }),
    ok: [204, 'Off.'],
    may: {
      401: 'No session (`not_signed_in`), or the password is wrong (`wrong_credentials`).',
      429: 'Too many wrong attempts (`too_many_attempts`).',
    },
  }),
  beginPasskey: managed({
    endpoint: 'POST /api/v1/account/passkeys/options',
    operationId: 'beginPasskey',
    tag,
    summary: 'Begin to add a passkey',
    access: 'session',
    body: closed({ password: password('The present one.') }),
    ok: [200, 'A question for the authenticator.', PasskeyQuestion],
    may: {
      401: 'No session (`not_signed_in`), or the password is wrong (`wrong_credentials`).',
      429: 'Too many wrong attempts (`too_many_attempts`).',
    },
  }),
  addPasskey: managed({
    endpoint: 'POST /api/v1/account/passkeys',
    operationId: 'addPasskey',
    tag,
    summary: 'Add a passkey',
    access: 'session',
    body: closed({ id: uuid('Of the question.'), name: name('Which device it is on.'), response: answer }),
    ok: [201, 'The passkey.', Passkey],
    may: {
      401: 'No session (`not_signed_in`), or the answer does not fit (`wrong_credentials`).',
      409: 'Known already, or too many (`conflict`).',
    },
  }),
  removePasskey: managed({
    endpoint: 'DELETE /api/v1/account/passkeys/{passkeyId}',
    operationId: 'removePasskey',
    tag,
    summary: 'Remove a passkey',
    access: 'session',
    texts: { passkeyId: Type.String({ description: "The credential's id." }) },
    ok: [204, 'Removed.'],
  }),
  askForPasskey: managed({
    endpoint: 'POST /api/v1/session/passkey/options',
    operationId: 'askForPasskey',
    tag,
    summary: 'Begin to sign in with a passkey',
    access: 'anyone',
    ok: [200, 'A question for the authenticator.', PasskeyQuestion],
  }),
  signInWithPasskey: managed({
    endpoint: 'POST /api/v1/session/passkey',
    operationId: 'signInWithPasskey',
    tag,
    summary: 'Sign in with a passkey',
    access: 'anyone',
    body: closed({ id: uuid('Of the question.'), response: answer }),
    ok: [200, 'Signed in.', Account],
    may: { 401: guessed },
  }),
  askForReset: managed({
    endpoint: 'POST /api/v1/password-resets',
    operationId: 'askForPasswordReset',
    tag,
    summary: 'Ask for a new password',
    description:
      'Mails a link that is good for an hour, if there is such an account; the answer is the same if there is none.',
    access: 'anyone',
    body: closed({ email: Type.String({ minLength: 1, maxLength: 254 }) }),
    ok: [202, 'If there is such an account, a mail is under way.'],
  }),
  resetPassword: managed({
    endpoint: 'POST /api/v1/password-resets/confirm',
    operationId: 'resetPassword',
    tag,
    summary: 'Choose a new password with the link',
    description: 'Ends all sessions of the account. A second factor stays.',
    access: 'anyone',
    body: closed({ token, password: password('At least 10 characters.') }),
    ok: [204, 'Changed: sign in with it.'],
    may: { 401: guessed },
  }),
  showInvitation: managed({
    endpoint: 'POST /api/v1/invitations/lookup',
    operationId: 'lookupInvitation',
    tag,
    summary: 'What an invitation is for',
    access: 'anyone',
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
  acceptInvitation: managed({
    endpoint: 'POST /api/v1/invitations/accept',
    operationId: 'acceptInvitation',
    tag,
    summary: 'Accept an invitation',
    description:
      'With an account: signed in as the invited address. Without one: with a new password, and then signed in.',
    access: 'anyone',
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
