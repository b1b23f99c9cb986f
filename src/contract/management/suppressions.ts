// Suppressed recipients: list, search, add, remove, CSV in and out.
import { Type } from 'typebox'
import { closed, email, endpointsOf, oneOf, page, paging, time, uuid } from './managed.ts'

const reason = oneOf(['hard_bounce', 'complaint', 'manual'], 'Why.')
export const Suppression = Type.Object(
  {
    recipient: email('The address that gets no mail.'),
    reason,
    sourceMessageId: Type.Optional(uuid('The message that was reported.')),
    rule: Type.Optional(Type.String({ description: 'The rule that classified the report.' })),
    evidence: Type.Optional(Type.String({ description: "The provider's own words." })),
    createdBy: Type.Optional(Type.String({ description: 'Who added it, where a person or a key did.' })),
    createdAt: time('Since when.'),
  },
  { description: 'A recipient that the workspace does not write to.' },
)

const managed = endpointsOf('Suppressions')
export const suppressions = {
  listSuppressions: managed({
    endpoint: 'GET /api/v1/suppressions',
    operationId: 'listSuppressions',
    summary: 'List and search suppressions',
    description:
      'Each page of a search looks at up to 10,000 suppressions; it may then hold fewer items than asked for, or none, and `next` goes on behind them.',
    scope: 'suppressions.read',
    query: closed({
      prefix: Type.Optional(
        Type.String({ minLength: 1, maxLength: 254, description: 'What the address begins with, in any case.' }),
      ),
      reason: Type.Optional(reason),
      ...paging,
    }),
    ok: [200, 'A page of suppressions, by address.', page(Suppression, 'Suppressions.')],
  }),
  addSuppression: managed({
    endpoint: 'POST /api/v1/suppressions',
    operationId: 'addSuppression',
    summary: 'Suppress a recipient',
    description: 'A recipient that is suppressed already keeps its reason.',
    scope: 'suppressions.write',
    body: closed({ recipient: email('The address.') }),
    ok: [201, 'The suppression.', Suppression],
    may: { 409: 'The workspace has too many, or it was removed meanwhile (`conflict`).' },
  }),
  removeSuppression: managed({
    endpoint: 'DELETE /api/v1/suppressions/{recipient}',
    operationId: 'removeSuppression',
    summary: 'Remove a suppression',
    description: 'Mail to the recipient is accepted again.',
    scope: 'suppressions.write',
    texts: {
      recipient: Type.String({ description: 'The address, percent-encoded.', examples: ['ada%40example.com'] }),
    },
    ok: [204, 'Removed.'],
  }),
  undoRule: managed({
    endpoint: 'POST /api/v1/suppressions/undo',
    operationId: 'undoSuppressionRule',
    summary: 'Take back what one rule suppressed in a time',
    description: 'After a wrong rule, or a provider that said wrong things for a day.',
    scope: 'suppressions.write',
    body: closed({
      rule: Type.String({ minLength: 1, maxLength: 200, description: 'The `rule` of the suppressions.' }),
      since: time('From this time.'),
      until: Type.Optional(time('Before this time; until now where nothing is said.')),
    }),
    ok: [200, 'Taken back.', Type.Object({ removed: Type.Integer({ description: 'How many were removed.' }) })],
  }),
  exportSuppressions: managed({
    endpoint: 'GET /api/v1/suppressions.csv',
    operationId: 'exportSuppressions',
    summary: 'Export all suppressions as CSV',
    scope: 'suppressions.read',
    ok: [
      200,
      'RFC 4180, with a head line. What it writes, the import reads. Addresses and evidence that begin like a formula have an apostrophe before them, for spreadsheets.',
      Type.String(),
    ],
    contentType: 'text/csv',
    headers: { 200: ['Content-Disposition'] },
  }),
  importSuppressions: managed({
    endpoint: 'POST /api/v1/suppressions/import',
    operationId: 'importSuppressions',
    summary: 'Import suppressions from CSV',
    description:
      'A head line names `recipient` (or `email`, `address`) and perhaps `reason`, `createdAt` (not in the future), `sourceMessageId`, `rule` and `evidence`, as an export does; or one address a line, perhaps with the reason behind it. What Postmark, SendGrid, Mailgun, Amazon SES, Resend and Brevo export is read as it is (docs/moving.md): their names of columns, their words for reasons, their dates; commas, semicolons or tabs between the columns. Where a line is wrong, wrong lines are named and nothing is written. An import that was cut off (by a restart, say) may have written a part: send it again, those that are there stay as they are.',
    scope: 'suppressions.write',
    body: closed({
      csv: Type.String({ minLength: 1, description: 'The text of the file.' }),
      reason: Type.Optional(
        oneOf(
          ['hard_bounce', 'complaint', 'manual'],
          'Of the lines that tell no reason; `manual` where nothing is said. What else stands in the column of the reasons is then kept as evidence.',
        ),
      ),
      dryRun: Type.Optional(Type.Boolean({ description: 'Say what would happen, and write nothing.' })),
    }),
    ok: [
      200,
      'Imported; with `dryRun`, what would be.',
      Type.Object({
        added: Type.Integer({
          description: 'New ones. With `dryRun`, one that the file names again far behind may count twice.',
        }),
        alreadyThere: Type.Integer({ description: 'Those that stay as they were.' }),
        reasons: Type.Object(
          { hard_bounce: Type.Integer(), complaint: Type.Integer(), manual: Type.Integer() },
          { description: 'How many lines of the file have which reason.' },
        ),
        ignoredColumns: Type.Array(Type.String(), { description: 'Columns that were not read.' }),
      }),
    ],
    may: { 409: 'The workspace would have too many suppressions (`conflict`); nothing is written.' },
  }),
}
