// POST /api/v1/send: specification 4.1. The order of checks is the contract's (decisions D): key, scope, blocked, plan
// from the headers alone; then size, headers, body; everything behind the body is `accept`'s.
import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { limits } from '../config.ts'
import { operations } from '../contract/operations.ts'
import { isRefusal, refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'
import type { Accepted, Principal, Submission } from '../domain/submission.ts'
import { gate } from './authenticate.ts'
import { answerRefusal } from './face.ts'
import type { Face, QuotaRefusal } from './face.ts'
import type { Guesses } from './guesses.ts'
import { readJson } from './json-body.ts'
import { presentAccepted } from './present.ts'
import { rateLimitHeaders } from './rate-limit.ts'
import { declaredLength, readBody, tooLarge } from './read-body.ts'
import type { LargeBodies } from './read-body.ts'
import { parseSendRequest } from './send-request.ts'

const operation = operations.send

const blocked = refuse(
  'workspace_blocked',
  'This workspace is blocked and cannot send; ask the operator of this service.',
)
const contentType = refuse('invalid_request', '"Content-Type" must be application/json.', { field: 'Content-Type' })
const contentEncoding = refuse('invalid_request', '"Content-Encoding" is not supported; send the JSON text as it is.', {
  field: 'Content-Encoding',
})
const idempotencyKey = refuse(
  'invalid_request',
  `"Idempotency-Key" must have 1 to ${limits.idempotencyKeyCharactersMax} visible ASCII characters, and be sent once.`,
  { field: 'Idempotency-Key' },
)

export function sendRoute(app: FastifyInstance, face: Face, guesses: Guesses, large: LargeBodies): void {
  const enter = gate(face, guesses, operation.scope)
  app.route({
    method: 'POST',
    url: operation.path,
    schema: { response: { 202: operation.answers[202].schema } },
    onRequest: async (request, reply) => {
      const principal = await enter(request)
      const refusal = isRefusal(principal) ? principal : (mayNotSend(principal) ?? wrongHeaders(request))
      if (refusal !== undefined) return answerRefusal(face, request, reply, refusal)
    },
    handler: (request, reply) => send(face, large, request, reply),
  })
}

async function send(face: Face, large: LargeBodies, request: FastifyRequest, reply: FastifyReply) {
  const body = await readBody(request.raw, reply.raw, large)
  if (isRefusal(body)) return answerRefusal(face, request, reply, body)
  request.bodyRead = true
  try {
    const submission = readSubmission(request, body.bytes)
    const answer: Accepted | QuotaRefusal = isRefusal(submission) ? submission : await face.doors.accept(submission)
    if (isRefusal(answer)) return answerRefusal(face, request, reply, answer)
    if (answer.replayed) reply.header('idempotent-replayed', 'true')
    if (answer.quota.length > 0) reply.headers(rateLimitHeaders(answer.quota))
    tellAccepted(face, request, answer)
    return reply.code(202).send(presentAccepted(answer.message))
  } finally {
    if (body.heldBytes > 0) large.give(body.heldBytes)
  }
}

function tellAccepted(face: Face, request: FastifyRequest, { message, replayed }: Accepted): void {
  const ms = performance.now() - request.beganAt
  face.metrics?.answered(operation.path, 202, ms / 1000)
  face.log.accepted({
    requestId: request.id,
    route: operation.path,
    status: 202,
    ms: Math.round(ms * 10) / 10,
    workspaceId: message.workspaceId,
    keyId: request.principal?.keyId,
    messageId: message.id,
    replayed,
  })
}

function mayNotSend(principal: Principal): Refusal | undefined {
  if (principal.blocked) return blocked
  if (principal.apiSending) return undefined
  return refuse(
    'upgrade_required',
    'The plan of this workspace does not include sending over the API; upgrade it.',
    principal.upgradeUrl === undefined ? {} : { upgradeUrl: principal.upgradeUrl },
  )
}

function wrongHeaders(request: FastifyRequest): Refusal | undefined {
  const { headers } = request
  if ((declaredLength(request.raw) ?? 0) > limits.requestBytesMax) return tooLarge
  if (!isJson(headers['content-type'])) return contentType
  if (headers['content-encoding'] !== undefined && headers['content-encoding'] !== 'identity') return contentEncoding
  const key = headers['idempotency-key']
  return key === undefined || isIdempotencyKey(key) ? undefined : idempotencyKey
}

/** application/json, with no other parameter than charset=utf-8. */
function isJson(header: string | undefined): boolean {
  if (header === undefined) return false
  return header === 'application/json' || /^application\/json[ \t]*(;[ \t]*charset=("?)utf-8\2[ \t]*)?$/i.test(header)
}

const isIdempotencyKey = (key: string | string[]): key is string =>
  typeof key === 'string' && key.length <= limits.idempotencyKeyCharactersMax && /^[!-~]+$/.test(key)

function readSubmission(request: FastifyRequest, bytes: Buffer): Submission | Refusal {
  const { principal } = request
  if (principal === null) throw new Error('a request reached the body without a principal')
  const json = readJson(bytes)
  if (isRefusal(json)) return json
  const message = parseSendRequest(json.value, Date.now())
  if (isRefusal(message)) return message
  const submission = { workspaceId: principal.workspaceId, source: 'rest' as const, ...message }
  const key = request.headers['idempotency-key']
  if (typeof key !== 'string') return submission
  return { ...submission, idempotency: { key, bodyHash: createHash('sha256').update(bytes).digest('hex') } }
}
