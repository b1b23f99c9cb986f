// How much was sent: quota windows, and the points of the charts.
import { Type } from 'typebox'
import { closed, endpointsOf, oneOf, time } from './managed.ts'

export const Usage = Type.Object(
  {
    plan: Type.String(),
    apiSending: Type.Boolean({ description: 'The plan includes sending.' }),
    upgradeUrl: Type.Optional(Type.String({ description: 'Where to change the plan; a path or a URL.' })),
    windows: Type.Array(
      Type.Object({
        window: oneOf(['hour', 'day', 'month'], 'The trailing 60 minutes, the day or the month (UTC).'),
        used: Type.Integer(),
        limit: Type.Optional(Type.Integer({ description: 'Left out where there is none.' })),
        resetSeconds: Type.Optional(
          Type.Integer({
            description:
              'Until the day or the month turns. Of the hour, which slides: until the oldest of what fills it has left, so that another message has room; left out where it has no limit.',
          }),
        ),
      }),
    ),
    deliveryStoppedSince: Type.Optional(
      time(
        'Since when no mail of anybody goes out: an operator has stopped delivery, or the database is being compared after a restore. Mail is accepted as before, and waits.',
      ),
    ),
  },
  { description: 'Quota windows as admission sees them, and whether delivery is stopped.' },
)

const count = (description: string) => Type.Integer({ description })
const counts = {
  accepted: count('Messages accepted.'),
  sent: count('Submitted over SMTP.'),
  delivered: count('Reported as delivered.'),
  softBounced: count('Soft bounces reported; a message can have several.'),
  hardBounced: count('Hard bounces reported.'),
  complained: count('Complaints reported.'),
  failed: count('Ended as failed.'),
  unknown: count('Ended as delivery_unknown.'),
  latencyMs: Type.Optional(
    Type.Object(
      { p50: Type.Integer(), p95: Type.Integer(), p99: Type.Integer() },
      {
        description:
          "From acceptance to the server's yes; within a fifth of the truth. Left out where nothing was sent.",
      },
    ),
  ),
}
export const UsageSeries = Type.Object(
  {
    step: oneOf(['hour', 'day'], 'What a point covers.'),
    from: time('The beginning of the first point.'),
    to: time('The end of the last point.'),
    totals: Type.Object(counts),
    points: Type.Array(Type.Object({ at: time('The beginning of the point.'), ...counts })),
  },
  { description: 'What happened over time. Each event counts in the step in which it happened (UTC).' },
)

const managed = endpointsOf('Usage')
export const usage = {
  readUsage: managed({
    endpoint: 'GET /api/v1/usage',
    operationId: 'getUsage',
    summary: 'Read the quota windows',
    scope: 'usage.read',
    ok: [200, 'The windows.', Usage],
  }),
  readUsageSeries: managed({
    endpoint: 'GET /api/v1/usage/series',
    operationId: 'getUsageSeries',
    summary: 'Read counts over time',
    description: 'At most 800 points. Without times: the last 24 hours, or the last 30 days with step `day`.',
    scope: 'usage.read',
    query: closed({
      step: Type.Optional(oneOf(['hour', 'day'], 'What a point covers; `hour` where nothing is said.')),
      from: Type.Optional(time('The beginning, cut to the step.')),
      to: Type.Optional(time('The end, cut to the step.')),
    }),
    ok: [200, 'The counts.', UsageSeries],
  }),
}
