// SMTP credentials: made with their password shown once, listed, revoked.
import { Type } from 'typebox'
import { closed, endpointsOf, name, termOf, uuid } from './managed.ts'

const properties = {
  id: uuid('The credential.'),
  name: Type.String({ description: 'What it is for.' }),
  username: Type.String({ description: 'For AUTH.' }),
  ...termOf('When it ends by itself: with the key that made it.'),
}
export const SmtpCredential = Type.Object(properties, { description: 'An SMTP credential, without its password.' })
/** Where programs hand mail in: the answers carry it, so that nobody has to look for it. */
const server = Type.Object(
  {
    host: Type.String({ description: 'The host of POSTHORN_PUBLIC_URL.' }),
    port: Type.Integer({ description: 'With STARTTLS.' }),
    tlsPort: Type.Integer({ description: 'With TLS from the first byte.' }),
  },
  { description: 'Where to submit mail over SMTP.' },
)

export const SmtpCredentialCreated = Type.Object(
  { ...properties, password: Type.String({ description: 'It is shown this once.' }), server },
  { description: 'A new SMTP credential.' },
)

const managed = endpointsOf('SMTP credentials')
export const credentials = {
  listCredentials: managed({
    endpoint: 'GET /api/v1/smtp-credentials',
    operationId: 'listSmtpCredentials',
    summary: 'List the SMTP credentials',
    scope: 'smtp-credentials.read',
    ok: [
      200,
      'All credentials, oldest first.',
      Type.Object({ items: Type.Array(SmtpCredential), server }, { description: 'SMTP credentials.' }),
    ],
  }),
  createCredential: managed({
    endpoint: 'POST /api/v1/smtp-credentials',
    operationId: 'createSmtpCredential',
    summary: 'Create an SMTP credential',
    description:
      'The password is in the answer and can never be seen again. One that is made with a key that ends, ends with it.',
    scope: 'smtp-credentials.write',
    body: closed({ name: name('What it is for.') }),
    ok: [201, 'The credential with its password.', SmtpCredentialCreated],
    may: { 409: 'The workspace has too many credentials (`conflict`).' },
  }),
  revokeCredential: managed({
    endpoint: 'DELETE /api/v1/smtp-credentials/{credentialId}',
    operationId: 'revokeSmtpCredential',
    summary: 'Revoke an SMTP credential',
    description: 'It is refused everywhere within a second, in open sessions too. It stays in the list.',
    scope: 'smtp-credentials.write',
    ok: [200, 'The revoked credential.', SmtpCredential],
  }),
}
