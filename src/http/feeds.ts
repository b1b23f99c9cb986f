// POST /feeds/{feedId}: where relay providers post their events. Authenticated by what the feed was set up with, never by an API key;
// the body is kept as it came, because signatures are over its octets.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { sourceOf } from '../base/networks.ts'
import { parseUuid } from '../base/uuid.ts'
import { limits } from '../config.ts'
import { isRefusal, refuse, type Refusal } from '../domain/refusal.ts'
import type { FeedAnswer } from '../feeds/feeds.ts'
import { callerAddress } from './caller-address.ts'
import { answerRefusal, counted } from './face.ts'
import type { Face } from './face.ts'
import { wholeBody } from './json-body.ts'
import { bodyLimit, readBody, type BodyRooms } from './read-body.ts'

const limit = bodyLimit(limits.feedBytesMax, 'The body is larger than 2 MiB; send fewer events at once.')
const unknown = refuse('not_found', 'There is no feed at this address.')
const refusalOf = {
  signature: refuse('invalid_api_key', 'The request does not prove that it comes from the provider of this feed.'),
  stale: refuse('invalid_request', 'The request was signed too long ago, or its clock is wrong.', wholeBody),
  replayed: refuse(
    'invalid_request',
    'The signature, or the Webhook-Id, of this request came with another body before; each body has its own.',
    wholeBody,
  ),
  topic: refuse('invalid_request', 'The request is about another topic than this feed was set up for.', wholeBody),
  malformed: refuse('invalid_request', 'The body is not what the provider of this feed sends.', wholeBody),
} as const satisfies Record<Extract<FeedAnswer, { refused: string }>['refused'], Refusal>

function refusalFor({ refused, mistake }: Extract<FeedAnswer, { refused: string }>): Refusal {
  const refusal = refusalOf[refused]
  return mistake === undefined ? refusal : refuse(refusal.code, mistake.words, { field: mistake.field })
}

export function feedRoute(app: FastifyInstance, face: Face, rooms: BodyRooms): void {
  app.route<{ Params: { feedId: string } }>({
    method: 'POST',
    url: '/feeds/:feedId',
    handler: (request, reply) => receive(face, rooms, request, reply, request.params.feedId),
  })
}

async function receive(
  face: Face,
  rooms: BodyRooms,
  request: FastifyRequest,
  reply: FastifyReply,
  feedId: string,
): Promise<FastifyReply> {
  const id = parseUuid(feedId)
  const feed = id && (await face.doors.feed?.(id))
  if (!feed) return answerRefusal(face, request, reply, unknown)
  const caller = sourceOf(callerAddress(request)) // the id is whatever a stranger makes up
  const body = await readBody(request.raw, reply.raw, rooms, caller, limit)
  if (isRefusal(body)) return answerRefusal(face, request, reply, body)
  request.bodyRead = true
  try {
    const answer = await feed({ header: (name) => headerOf(request, name), body: body.bytes })
    if ('refused' in answer) return answerRefusal(face, request, reply, refusalFor(answer))
    counted(face, request, 200)
    return await reply.code(200).send(answer)
  } finally {
    rooms.large.give(caller, body.heldBytes)
  }
}

/** Elsewhere one that came twice is a joined value, which could be taken for a single one here: an id is any text. */
function headerOf({ raw }: FastifyRequest, name: string): string | undefined {
  const values = raw.rawHeaders.filter((_value, at, all) => at % 2 === 1 && all[at - 1]?.toLowerCase() === name)
  return values.length === 1 ? values[0] : undefined
}
