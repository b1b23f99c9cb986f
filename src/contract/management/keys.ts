// API keys: made with their secret shown once, listed, revoked.
import { Type } from 'typebox'
import { scopes } from '../operation.ts'
import { closed, list, endpointsOf, name, oneOf, termOf, time, uuid } from './managed.ts'

const scope = oneOf(Object.keys(scopes) as (keyof typeof scopes)[], 'A scope.')

const properties = {
  id: uuid('The key.'),
  name: Type.String({ description: 'What it is for.' }),
  prefix: Type.String({ description: 'The visible beginning of the secret.', examples: ['ph_8Qm2xYk'] }),
  scopes: Type.Array(Type.String(), { description: 'What it may do.' }),
  ...termOf('When it ends by itself.'),
}
export const ApiKey = Type.Object(properties, { description: 'An API key, without its secret.' })
export const ApiKeyCreated = Type.Object(
  { ...properties, key: Type.String({ description: 'The secret. It is shown this once.' }) },
  { description: 'A new API key.' },
)
export const ApiKeyRevoked = Type.Object(
  {
    ...properties,
    stillValid: Type.Optional(
      Type.Array(
        Type.Object({
          kind: oneOf(
            ['key', 'smtp_credential', 'member', 'webhook'],
            'What it is. `member`: a person who came by its invitation. `webhook`: the endpoint, where it set the URL, or was shown the secret that counts.',
          ),
          id: uuid("Its id; of a member the person's, of the webhook endpoint the workspace's."),
          name: Type.String({ description: 'What it is for; of a member the address, of the endpoint the host.' }),
        }),
        {
          description:
            'What this key has made, or what it made (keys and the people whom it invited), and so on, and that is still valid; as far as the audit log still tells. If the key leaked, revoke and remove these, too. Left out where there is nothing.',
        },
      ),
    ),
  },
  { description: 'A revoked API key.' },
)

const managed = endpointsOf('API keys')
export const keys = {
  listKeys: managed({
    endpoint: 'GET /api/v1/keys',
    operationId: 'listKeys',
    summary: 'List the API keys',
    scope: 'keys.read',
    ok: [200, 'All keys, oldest first.', list(ApiKey, 'API keys.')],
  }),
  createKey: managed({
    endpoint: 'POST /api/v1/keys',
    operationId: 'createKey',
    summary: 'Create an API key',
    description:
      'The secret is in the answer and can never be seen again. A key gets no scope that its creator lacks. One that is made with a key ends no later than that: a later `expiresAt` is refused, and without one it ends with its maker.',
    scope: 'keys.write',
    body: closed({
      name: name('What it is for.'),
      scopes: Type.Array(scope, { minItems: 1, maxItems: 50, description: 'What it may do.' }),
      expiresAt: Type.Optional(time('When it ends by itself.')),
    }),
    ok: [201, 'The key with its secret.', ApiKeyCreated],
    may: { 409: 'The workspace has too many keys (`conflict`).' },
  }),
  revokeKey: managed({
    endpoint: 'DELETE /api/v1/keys/{keyId}',
    operationId: 'revokeKey',
    summary: 'Revoke an API key',
    description:
      'It is refused everywhere within a second. It stays in the list. The open invitations that were made with it are withdrawn; keys and SMTP credentials that were made with it, people who came by them, and the webhook endpoint that it set stay, and are named.',
    scope: 'keys.write',
    ok: [200, 'The revoked key.', ApiKeyRevoked],
  }),
}
