// Who did what in the workspace.
import { Type } from 'typebox'
import { closed, endpointsOf, page, paging, time, uuid } from './managed.ts'

export const AuditEntry = Type.Object(
  {
    id: uuid('The entry.'),
    at: time('When.'),
    actor: Type.String({
      description: '`user:<id>`, `key:<id>`, `operator:<login name>` for commands, `posthorn` for itself.',
    }),
    actorName: Type.Optional(
      Type.String({ description: 'The address of the person or the name of the key, as it is now.' }),
    ),
    action: Type.String({ description: 'What was done.', examples: ['key.created'] }),
    target: Type.Optional(Type.String({ description: 'To what.' })),
    facts: Type.Optional(Type.Unknown({ description: 'Details that depend on the action.' })),
  },
  { description: 'Something that somebody did.' },
)

const managed = endpointsOf('Workspace')
export const audits = {
  readAudit: managed({
    endpoint: 'GET /api/v1/audit',
    operationId: 'listAuditEntries',
    summary: 'Read the audit log',
    description: 'Who changed what, of the last 400 days or as long as the installation keeps it.',
    scope: 'audit.read',
    query: closed(paging),
    ok: [200, 'A page of entries, newest first.', page(AuditEntry, 'Audit entries.')],
  }),
}
