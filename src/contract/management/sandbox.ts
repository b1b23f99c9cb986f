// The sandbox's inbox: what messages of the workspace look like when they arrive.
import { Type } from 'typebox'
import { closed, email, endpointsOf, page, paging, time, uuid } from './managed.ts'

const properties = {
  id: uuid('The mail.'),
  receivedAt: time('When the sandbox took it.'),
  envelopeFrom: Type.String({ description: 'The return path; may be empty.' }),
  recipient: Type.String({ description: 'To whom.' }),
  messageId: Type.Optional(uuid('The message.')),
  sizeBytes: Type.Integer(),
  subject: Type.Optional(Type.String()),
}
export const SandboxMail = Type.Object(properties, { description: 'A mail in the inbox of the sandbox.' })
export const SandboxMailParsed = Type.Object(
  {
    ...properties,
    headers: Type.Array(Type.Object({ name: Type.String(), value: Type.String() })),
    text: Type.Optional(Type.String()),
    html: Type.Optional(Type.String({ description: 'As received: show it only in a frame that runs nothing.' })),
    attachments: Type.Array(
      Type.Object({ filename: Type.String(), contentType: Type.String(), sizeBytes: Type.Integer() }),
    ),
    whole: Type.Boolean({
      description: 'False where text and HTML are so large that only their beginning is here; the download has all.',
    }),
  },
  { description: 'A mail, read.' },
)

const managed = endpointsOf('Sandbox')
const byLink = closed({
  workspace: Type.Optional(uuid('In place of X-Posthorn-Workspace, which a link or a frame cannot send.')),
})
export const sandbox = {
  listSandbox: managed({
    endpoint: 'GET /api/v1/sandbox',
    operationId: 'listSandboxMail',
    summary: "List the sandbox's inbox",
    description: [
      "What the sandbox received of the workspace's own messages; 10,000 mails of the installation are kept, up to 2 GB of them, the newest of each workspace.",
      '',
      'Each page of a search looks at up to 5,000 mails; it may then hold fewer items than asked for, or none, and `next` goes on behind them.',
    ].join('\n'),
    scope: 'mail.read',
    query: closed({
      recipient: Type.Optional(email('To exactly this address, in any case.')),
      messageId: Type.Optional(uuid('What this message became.')),
      text: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 200,
          description:
            'Part of the subject or the recipient, in any case; the subject of a message that is still on record.',
        }),
      ),
      ...paging,
    }),
    ok: [200, 'A page of mails, newest first.', page(SandboxMail, 'Mails.')],
  }),
  readSandboxMail: managed({
    endpoint: 'GET /api/v1/sandbox/{mailId}',
    operationId: 'getSandboxMail',
    summary: 'Read a mail of the sandbox',
    scope: 'mail.read',
    ok: [200, 'The mail.', SandboxMailParsed],
  }),
  readSandboxHtml: managed({
    endpoint: 'GET /api/v1/sandbox/{mailId}/html',
    operationId: 'getSandboxMailHtml',
    summary: 'Look at the HTML of a mail of the sandbox',
    description:
      'A page for a frame of the dashboard, under a Content-Security-Policy that lets nothing run and loads nothing from anywhere, as that of a message.',
    scope: 'mail.read',
    query: byLink,
    ok: [200, 'The page.', Type.String()],
    contentType: 'text/html',
    may: { 404: 'Not there, of another workspace, or without HTML (`not_found`).' },
  }),
  readSandboxBytes: managed({
    endpoint: 'GET /api/v1/sandbox/{mailId}/raw',
    operationId: 'getSandboxMailBytes',
    summary: 'Download a mail of the sandbox as it came',
    scope: 'mail.read',
    query: byLink,
    ok: [200, 'The octets (RFC 5322).', Type.String()],
    contentType: 'message/rfc822',
    headers: { 200: ['Content-Disposition'] },
  }),
}
