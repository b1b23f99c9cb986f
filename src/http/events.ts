// GET /api/v1/events: all events of the workspace in the order of their commits, for whoever was away (decisions G).
import type { FastifyInstance } from 'fastify'
import { webhooks } from '../contract/management/webhooks.ts'
import { isRefusal } from '../domain/refusal.ts'
import type { Scope } from '../contract/operation.ts'
import type { Gate } from './authenticate.ts'
import type { Face } from './face.ts'
import { readPage } from './page-query.ts'
import { answering } from './webhooks.ts'

const operation = webhooks.catchUpEvents

export function eventRoutes(app: FastifyInstance, face: Face, gateOf: (scope: Scope) => Gate): void {
  answering(app, face, operation, gateOf(operation.scope), (workspace, request) => {
    const page = readPage(request.query)
    return isRefusal(page) ? Promise.resolve(page) : face.doors.catchUp(workspace, page.after, page.limit)
  })
}
