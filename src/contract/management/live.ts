// Live updates of the dashboard.
import { Type } from 'typebox'
import { closed, endpointsOf, uuid } from './managed.ts'

const managed = endpointsOf('Workspace')
export const live = {
  watch: managed({
    endpoint: 'GET /api/v1/live',
    operationId: 'watchWorkspace',
    summary: 'Hear that something has changed',
    description:
      'Server-Sent Events: `ready` at the beginning, `changed` at most once a second when messages of the workspace have changed. The event says no more; read again what is shown. The stream ends with its session or key, and when the service stops: `EventSource` comes back by itself.',
    scope: 'mail.read',
    query: closed({
      workspace: Type.Optional(uuid('In place of X-Posthorn-Workspace, which `EventSource` cannot send.')),
    }),
    ok: [200, 'A stream of events.', Type.String()],
    contentType: 'text/event-stream',
    may: { 429: 'Too many streams of this person, of this workspace, or of this service (`too_many_attempts`).' },
  }),
}
