// What operators of the installation decide. Sessions of operators alone: a key belongs to a workspace.
import { Type } from 'typebox'
import { pairs } from '../values.ts'
import { AuditEntry } from './audit.ts'
import { closed, list, endpointsOf, name, oneOf, page, paging, time, uuid } from './managed.ts'

export const OperatorWorkspace = Type.Object(
  {
    id: uuid('The workspace.'),
    name: Type.String({ description: 'Unlike any other.' }),
    ownName: Type.Optional(
      Type.String({ description: 'What its members call it, where that is another name; others may have the same.' }),
    ),
    status: oneOf(['active', 'blocked'], 'A blocked workspace can read, but not send.'),
    plan: Type.String(),
    route: Type.Optional(
      Type.String({ description: "Its own route, without a login; left out where it takes the installation's." }),
    ),
    keepsContent: Type.Boolean({ description: 'Content is kept for a while after a message is final.' }),
    createdAt: time('When it was made.'),
    removingSince: Type.Optional(
      time('It is being removed since then: blocked for good, and gone when that has ended.'),
    ),
  },
  { description: 'A workspace as operators see it.' },
)
const limit = (description: string) =>
  Type.Optional(Type.Union([Type.Integer({ minimum: 0, maximum: 999_999_999 }), Type.Null()], { description }))
const plan = {
  apiSending: Type.Boolean({ description: 'May it send at all.' }),
  hourly: Type.Union([Type.Integer(), Type.Null()], { description: 'In the trailing 60 minutes; null: no limit.' }),
  daily: Type.Union([Type.Integer(), Type.Null()], { description: 'In a day (UTC); null: no limit.' }),
  monthly: Type.Union([Type.Integer(), Type.Null()], { description: 'In a month (UTC); null: no limit.' }),
  upgradeUrl: Type.Optional(Type.String({ description: 'Where to get a bigger plan.' })),
}
export const Plan = Type.Object({ name: Type.String(), ...plan }, { description: 'Limits of sending.' })

const unmatched = {
  id: uuid('The feedback.'),
  receivedAt: time('When it came.'),
  reason: Type.String({ description: 'Why it had no effect.', examples: ['unknown_message'] }),
  source: Type.String({ description: '`mail`, or the name of a feed.' }),
  sender: Type.String({ description: 'Of its envelope.' }),
  addressee: Type.String({ description: 'Of its envelope.' }),
  sizeBytes: Type.Integer(),
}
const UnmatchedFeedback = Type.Object(unmatched, {
  description: 'A report, or something like it, that changed no message.',
})

const stops = Type.Array(
  Type.Object({
    kind: oneOf(
      ['drain', 'fence', 'pause'],
      '`drain`: until `posthorn drain --off`; `fence`: the database may have been put back, until `posthorn recover`; `pause`: until all nodes have compared with the database, by itself.',
    ),
    reason: Type.String(),
    since: time('Since when.'),
  }),
  { description: 'What stops delivery everywhere; empty where nothing does.' },
)

const managed = endpointsOf('Operator', 'operator')
export const operators = {
  listWorkspaces: managed({
    endpoint: 'GET /api/v1/operator/workspaces',
    operationId: 'listWorkspaces',
    summary: 'List and search workspaces',
    query: closed({
      text: Type.Optional(
        Type.String({ minLength: 1, maxLength: 200, description: 'Part of the name, or of what its members call it.' }),
      ),
      ...paging,
    }),
    ok: [200, 'A page of workspaces, newest first.', page(OperatorWorkspace, 'Workspaces.')],
  }),
  createWorkspace: managed({
    endpoint: 'POST /api/v1/operator/workspaces',
    operationId: 'createWorkspace',
    summary: 'Make a workspace',
    body: closed({
      name: name('Unlike any other.'),
      plan: Type.Optional(name('The name of its plan; `unlimited` where nothing is said.')),
    }),
    ok: [201, 'The workspace.', OperatorWorkspace],
    may: { 409: 'The name is taken (`conflict`).' },
  }),
  changeAnyWorkspace: managed({
    endpoint: 'PATCH /api/v1/operator/workspaces/{workspaceId}',
    operationId: 'updateWorkspaceAsOperator',
    summary: 'Change name, plan, route or status of a workspace',
    body: closed({
      name: Type.Optional(name("Another name, unlike any other, for the operators: its members' own stays.")),
      plan: Type.Optional(name('The name of another plan.')),
      status: Type.Optional(oneOf(['active', 'blocked'], 'Block it, or let it send again.')),
      route: Type.Optional(
        Type.String({ minLength: 1, maxLength: 1000, description: '`sandbox`, `mx`, a relay URL, or `default`.' }),
      ),
    }),
    ok: [200, 'The workspace.', OperatorWorkspace],
    may: { 409: 'The name is taken (`conflict`).' },
  }),
  listPlans: managed({
    endpoint: 'GET /api/v1/operator/plans',
    operationId: 'listPlans',
    summary: 'List the plans',
    ok: [200, 'All plans, by name.', list(Plan, 'Plans.')],
  }),
  setPlan: managed({
    endpoint: 'PUT /api/v1/operator/plans/{planName}',
    operationId: 'setPlan',
    summary: 'Make or change a plan',
    description: 'What is left out stays; null takes a limit away. A new plan has no limits but those given.',
    texts: { planName: Type.String({ description: 'The name of the plan.', examples: ['growth'] }) },
    body: closed({
      apiSending: Type.Optional(Type.Boolean()),
      hourly: limit('In the trailing 60 minutes.'),
      daily: limit('In a day (UTC).'),
      monthly: limit('In a month (UTC).'),
      upgradeUrl: Type.Optional(
        Type.String({ maxLength: 1000, description: 'A URL or a path; an empty one takes it away.' }),
      ),
      mustBeNew: Type.Optional(Type.Boolean({ description: 'Refuse where there is a plan of this name: it stays.' })),
    }),
    ok: [200, 'The plan.', Plan],
    may: { 409: 'It must be new, and there is one of this name (`conflict`).' },
  }),
  readQueue: managed({
    endpoint: 'GET /api/v1/operator/queue',
    operationId: 'getQueue',
    summary: 'Look at the queue',
    description:
      'By workspace, destination and state; of a long queue its first 100,000 messages, and the 200 largest groups.',
    ok: [
      200,
      'The queue.',
      Type.Object({
        total: Type.Integer({ description: 'Messages that are not final, in all groups; of a long queue 100,000.' }),
        truncated: Type.Boolean({ description: 'There are more messages than were counted.' }),
        groups: Type.Integer({ description: 'How many groups there are; `lanes` has the 200 largest.' }),
        stops,
        lanes: Type.Array(
          Type.Object({
            workspaceId: uuid('The workspace.'),
            workspaceName: Type.String(),
            destination: Type.String({ description: "The recipients' domain." }),
            status: Type.String(),
            count: Type.Integer(),
            oldestDueAt: time('When the oldest was due.'),
            attemptsMax: Type.Integer({ description: 'Most attempts of one of them.' }),
            reason: Type.Optional(
              Type.String({
                description:
                  'Of what waits for another try: the reason of most of the last attempts, a few of them being looked at; as in `message.retrying`, or `paced` where its provider asked for less and nobody was asked, or `gave_way` where it made way for other mail while its host said nothing.',
                examples: ['rcpt_4xx'],
              }),
            ),
            error: Type.Optional(Type.String({ description: 'What one of these attempts saw.' })),
            messageId: Type.Optional(uuid('The message of that attempt.')),
          }),
        ),
      }),
    ],
  }),
  listUnmatched: managed({
    endpoint: 'GET /api/v1/operator/feedback',
    operationId: 'listUnmatchedFeedback',
    summary: 'List feedback that had no effect',
    query: closed(paging),
    ok: [200, 'A page of the last 30 days, newest first.', page(UnmatchedFeedback, 'Unmatched feedback.')],
  }),
  readUnmatched: managed({
    endpoint: 'GET /api/v1/operator/feedback/{feedbackId}',
    operationId: 'getUnmatchedFeedback',
    summary: 'Look at feedback that had no effect',
    ok: [
      200,
      'The feedback.',
      Type.Object({
        ...unmatched,
        facts: pairs(Type.Unknown(), { description: 'What was read in it.' }),
        content: Type.String({ description: 'Its beginning, as text.' }),
      }),
    ],
  }),
  readHealth: managed({
    endpoint: 'GET /api/v1/operator/health',
    operationId: 'getHealth',
    summary: 'Look at the installation',
    ok: [
      200,
      'The installation.',
      Type.Object({
        version: Type.String({ description: 'Of this release.' }),
        database: Type.Object({
          version: Type.String(),
          sizeBytes: Type.Integer(),
          startedAt: time('When the server started.'),
          now: time("The database's clock."),
        }),
        stops,
      }),
    ],
  }),
  examine: managed({
    endpoint: 'GET /api/v1/operator/doctor',
    operationId: 'examineInstallation',
    summary: 'Look at everything that the installation needs',
    description: 'The same as `posthorn doctor`. It may take up to 20 seconds; the answer is up to 10 seconds old.',
    ok: [
      200,
      'What was found.',
      Type.Object({
        checks: Type.Array(
          Type.Object({
            name: Type.String({ examples: ['database'] }),
            status: oneOf(['ok', 'warn', 'fail', 'skipped'], '`skipped`: not needed here.'),
            detail: Type.String({ description: 'What was seen, and what to do about it.' }),
          }),
        ),
      }),
    ],
  }),
  readInstallationAudit: managed({
    endpoint: 'GET /api/v1/operator/audit',
    operationId: 'listInstallationAuditEntries',
    summary: 'Read the audit log of the installation',
    description: 'Sign-ins, accounts, plans: what belongs to no workspace.',
    query: closed(paging),
    ok: [200, 'A page of entries, newest first.', page(AuditEntry, 'Audit entries.')],
  }),
}
