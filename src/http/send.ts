// POST /api/v1/send: specification 4.1. The order of checks is the contract's (decisions D): key, scope, blocked, plan
// from the headers alone; then size, headers, body; everything behind the body is `accept`'s.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { release } from '../base/release.ts'
import { limits } from '../config.ts'
import { operations } from '../contract/operations.ts'
import { isRefusal, refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'
import { mayNotSend } from '../domain/standing.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Accepted, Principal, QuotaState, Submission } from '../domain/submission.ts'
import { gate, type Gate } from './authenticate.ts'
import { isIdempotencyKey } from '../mail/control-fields.ts'
import { answerRefusal, counted } from './face.ts'
import type { Face, QuotaRefusal } from './face.ts'
import type { Guesses } from '../base/guesses.ts'
import { presentAccepted } from './present.ts'
import { rateLimitHeaders } from './rate-limit.ts'
import { bodyLimit, isTooLarge, readBody, type BodyRooms } from './read-body.ts'
import { refusals } from './refusals.ts'
import { notJson } from './json-body.ts'
import type { SendBodies } from './send-body.ts'
import { unknownParameter } from './shape.ts'

const operation = operations.send

const limit = bodyLimit(
  limits.requestBytesMax,
  'The body is larger than 48 MiB; send fewer or smaller attachments, at most 20 MB in total.',
)
const idempotencyKey = refuse(
  'invalid_request',
  `"Idempotency-Key" must have 1 to ${limits.idempotencyKeyCharactersMax} visible ASCII characters, and be sent once.`,
  { field: 'Idempotency-Key' },
)

export function sendRoute(
  app: FastifyInstance,
  face: Face,
  guesses: Guesses,
  rooms: BodyRooms,
  bodies: SendBodies,
): void {
  const enter = gate(face, guesses, operation.scope)
  app.route({
    method: 'POST',
    url: operation.path,
    schema: { response: { 202: operation.answers[202].schema } },
    onRequest: async (request, reply) => {
      const principal = await enter(request)
      const refusal = isRefusal(principal) ? principal : (mayNotSend(principal) ?? wrongHeaders(request))
      if (refusal !== undefined) return refused(face, request, reply, refusal)
    },
    handler: (request, reply) => send(face, rooms, bodies, enter, request, reply),
  })
}

async function send(
  face: Face,
  rooms: BodyRooms,
  bodies: SendBodies,
  enter: Gate,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  const { principal } = request
  if (principal === null) throw new Error('a request reached the body without a principal')
  const owner = principal.workspaceId
  const body = await readBody(request.raw, reply.raw, rooms, owner, limit)
  if (isRefusal(body)) return refused(face, request, reply, body)
  request.bodyRead = true
  let { heldBytes } = body
  try {
    const ended = await endedMeanwhile(enter, request)
    if (ended !== undefined) return refused(face, request, reply, ended)
    const submission = await readSubmission(bodies, request, principal, body.bytes)
    if (heldBytes > 0 && !isRefusal(submission)) {
      // The body is gone; what it held has become files and text.
      const keptBytes = Math.min(heldBytes, sizeOf(submission))
      rooms.large.give(owner, heldBytes - keptBytes)
      heldBytes = keptBytes
    }
    const answer: Accepted | QuotaRefusal = isRefusal(submission) ? submission : await face.doors.accept(submission)
    if (isRefusal(answer))
      return refused(face, request, reply, answer, isRefusal(submission) ? undefined : submission.recipient.domain)
    // It is in the database now; nobody reads these bytes again.
    if (heldBytes > 0 && !isRefusal(submission)) for (const { bytes } of submission.attachments) release(bytes)
    if (answer.replayed) reply.header('idempotent-replayed', 'true')
    if (answer.quota.length > 0) reply.headers(rateLimitHeaders(answer.quota))
    tellAccepted(face, request, answer)
    return reply.code(202).send(presentAccepted(answer.message))
  } finally {
    rooms.large.give(owner, heldBytes)
  }
}

/** Why a caller whose body took long to come may not send any more: the key was revoked meanwhile, or the workspace blocked. */
async function endedMeanwhile(enter: Gate, request: FastifyRequest): Promise<Refusal | undefined> {
  if (performance.now() - request.beganAt < limits.bodyAtOnceMs) return undefined
  const principal = await enter(request)
  return isRefusal(principal) ? principal : mayNotSend(principal)
}

function sizeOf({ attachments, bodyText }: Submission): number {
  return attachments.reduce((sum, { bytes }) => sum + bytes.length, 2 * bodyText.length)
}

/** A caller's mistake is kept for their workspace to see; our own trouble is not theirs. */
async function refused(
  face: Face,
  request: FastifyRequest,
  reply: FastifyReply,
  refusal: QuotaRefusal,
  domain?: string,
) {
  const { workspaceId, keyId } = request.principal ?? {}
  if (workspaceId !== undefined && refusals[refusal.code] < 500)
    face.doors.noteRefused({
      workspaceId,
      source: 'rest',
      code: refusal.code,
      error: refusal.words,
      requestId: request.id,
      ...(domain !== undefined && { recipientDomain: domain }),
      ...(refusal.field !== undefined && { field: refusal.field }),
      ...(keyId !== undefined && { callerId: keyId }),
    })
  return answerRefusal(face, request, reply, { ...refusal, quota: await quotaBeside(face, refusal, workspaceId) })
}

/** The answers to those who may not send at all: no window is theirs to use. */
const notSending: ReadonlySet<number> = new Set([401, 402, 403])

/**
 * What every other answer tells of the windows (decisions D). Acceptance has told it where it asked the database; for a request that never came so
 * far, it is asked now. A database that says nothing keeps nobody from their refusal.
 */
async function quotaBeside(
  { doors }: Face,
  { quota, code }: QuotaRefusal,
  workspace: WorkspaceId | undefined,
): Promise<readonly QuotaState[]> {
  if (quota !== undefined) return quota
  const status = refusals[code]
  if (workspace === undefined || status >= 500 || notSending.has(status)) return []
  return doors.quota(workspace).catch(() => [])
}

function tellAccepted(face: Face, request: FastifyRequest, { message, replayed }: Accepted): void {
  face.log.accepted({
    requestId: request.id,
    route: operation.path,
    status: 202,
    ms: counted(face, request, 202),
    workspaceId: message.workspaceId,
    keyId: request.principal?.keyId,
    messageId: message.id,
    replayed,
  })
}

function wrongHeaders(request: FastifyRequest): Refusal | undefined {
  if (isTooLarge(request.raw, limit)) return limit.tooLarge
  const wrong = notJson(request.raw) ?? unknownParameter(request.query)
  if (wrong !== undefined) return wrong
  const key = request.headers['idempotency-key']
  return key === undefined || (typeof key === 'string' && isIdempotencyKey(key)) ? undefined : idempotencyKey
}

async function readSubmission(
  bodies: SendBodies,
  request: FastifyRequest,
  { workspaceId }: Principal,
  bytes: Buffer,
): Promise<Submission | Refusal> {
  const key = request.headers['idempotency-key']
  const read = await bodies.read(bytes, key !== undefined)
  if (isRefusal(read)) return read
  const submission = { workspaceId, source: 'rest' as const, ...read.message }
  if (typeof key !== 'string' || read.hash === undefined) return submission
  return { ...submission, idempotency: { key, bodyHash: read.hash } }
}
