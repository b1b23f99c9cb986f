// GET /api/v1/messages/{messageId}: specification 4.2. A message of another workspace is answered like one that does
// not exist.
import type { FastifyInstance } from 'fastify'
import { operations } from '../contract/operations.ts'
import type { MessageId } from '../domain/message.ts'
import { isRefusal, refuse } from '../domain/refusal.ts'
import { gate } from './authenticate.ts'
import { answerRefusal, counted } from './face.ts'
import type { Face } from './face.ts'
import type { Guesses } from '../base/guesses.ts'
import { doneFor } from '../base/turns.ts'
import { parseUuid } from '../base/uuid.ts'
import { presentStatus } from './present.ts'
import { unknownParameter } from './shape.ts'

const operation = operations.readStatus

export const notAMessageId = refuse('invalid_request', '"messageId" must be a UUID, as send returned it.', {
  field: 'messageId',
})
const unknown = refuse('not_found', 'No message with this id exists in your workspace.')

export function statusRoute(app: FastifyInstance, face: Face, guesses: Guesses): void {
  const enter = gate(face, guesses, operation.scope)
  app.route<{ Params: { messageId: string } }>({
    method: 'GET',
    url: operation.path.replace('{messageId}', ':messageId'),
    schema: { response: { 200: operation.answers[200].schema } },
    handler: async (request, reply) => {
      const principal = await enter(request)
      if (isRefusal(principal)) return answerRefusal(face, request, reply, principal)
      const id = parseUuid(request.params.messageId)
      if (id === undefined) return answerRefusal(face, request, reply, notAMessageId)
      const parameter = unknownParameter(request.query)
      if (parameter !== undefined) return answerRefusal(face, request, reply, parameter)
      const { workspaceId } = principal
      const found = await doneFor(workspaceId, () => face.doors.readStatus(workspaceId, id as MessageId))
      if (found === undefined) return answerRefusal(face, request, reply, unknown)
      counted(face, request, 200)
      return reply.send(presentStatus(found.message, found.events))
    },
  })
}
