// GET /api/v1/events: all events of the workspace in the order of their commits, for whoever was away (decisions G).
import type { FastifyInstance } from 'fastify'
import type { Guesses } from '../base/guesses.ts'
import { webhooks } from '../contract/management/webhooks.ts'
import { isRefusal } from '../domain/refusal.ts'
import { gate } from './authenticate.ts'
import type { Face } from './face.ts'
import { readPage } from './page-query.ts'
import { answering } from './webhooks.ts'

const operation = webhooks.catchUpEvents

export function eventRoutes(app: FastifyInstance, face: Face, guesses: Guesses): void {
  answering(app, face, operation, gate(face, guesses, operation.scope), (workspace, request) => {
    const page = readPage(request.query)
    return isRefusal(page) ? Promise.resolve(page) : face.doors.catchUp(workspace, page.after, page.limit)
  })
}
