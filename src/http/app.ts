// The routes of this face and what surrounds them: ids, headers that every response carries, bounds of a connection, and
// Error JSON for whatever goes wrong before a route is found.
import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { fastify } from 'fastify'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { limits } from '../config.ts'
import { isRefusal, refuse } from '../domain/refusal.ts'
import type { Office } from '../workspace/workspace.ts'
import { gate } from './authenticate.ts'
import { dashboardRoutes } from './dashboard.ts'
import { answerFault, answerNotFound, answerRefusal } from './face.ts'
import type { Face } from './face.ts'
import { Guesses } from '../base/guesses.ts'
import { oneOf } from './caller-address.ts'
import { boundConnections, boundPipelines, boundRequests, closeSilentOnes } from './connections.ts'
import { feedRoute } from './feeds.ts'
import { healthRoutes } from './health.ts'
import { boundAnswers } from './unread-answers.ts'
import { answerMalformed } from './malformed.ts'
import { notAMessageId, statusRoute } from './messages.ts'
import { makeManagementRouter } from './manage.ts'
import { liveRoute } from './management/live.ts'
import { listRoutes } from './management/lists.ts'
import { mailRoutes } from './management/mail.ts'
import { operatorRoutes } from './management/operators.ts'
import { memberRoutes, peopleRoutes } from './management/people.ts'
import { senderRoutes } from './management/senders.ts'
import { webhookRoutes } from './management/webhooks.ts'
import { roomsOfCallers, roomsOfStrangers } from './read-body.ts'
import { referenceRoutes } from './reference.ts'
import { SendBodies } from './send-body.ts'
import { sendRoute } from './send.ts'

export interface HttpOptions extends Face {
  /** Addresses of proxies whose forwarding headers count. */
  readonly trustProxy: readonly string[]
  /** What the management endpoints work with. */
  readonly office: Office
  /** The clock by which messages expire. */
  readonly now?: () => number
}

/** The routes without a socket. */
export function buildApp(options: HttpOptions): FastifyInstance {
  const face: Face = options
  const guesses = new Guesses()
  const bodies = new SendBodies(options.now)
  const rooms = { callers: roomsOfCallers(options.log), strangers: roomsOfStrangers(options.log) }
  const nextId = requestIds()
  const readStatus = gate(face, guesses, 'mail.status.read')
  const carried = options.publicUrl.startsWith('https:') ? overTls : everywhere
  const begin = (request: FastifyRequest, reply: FastifyReply): void => {
    request.beganAt = performance.now() // Fastify's own clock runs only with its logger
    reply.headers(carried)
    reply.header('x-request-id', request.id)
  }

  const app = fastify({
    logger: false,
    trustProxy: options.trustProxy.length > 0 ? oneOf(options.trustProxy) : false,
    genReqId: nextId,
    requestTimeout: limits.requestMs,
    // Otherwise a client that does not read its answer keeps it, and a place, for as long as it likes.
    connectionTimeout: limits.silentConnectionMs,
    keepAliveTimeout: limits.keepAliveMs,
    return503OnClosing: false,
    routerOptions: { maxParamLength: limits.requestHeadBytesMax },
    http: {
      // The same header twice becomes one joined value, which nothing here takes for a single one.
      joinDuplicateHeaders: true,
      requireHostHeader: false, // `wrongHead` asks for it, and answers with JSON
      headersTimeout: limits.requestHeadersMs,
      connectionsCheckingInterval: 1_000,
      maxHeaderSize: limits.requestHeadBytesMax,
    },
    clientErrorHandler: (error, socket) => answerMalformed(error, socket, nextId(), carried),
    // The path cannot be decoded, so no route could be found; where an id was meant, the key still comes first (decisions D).
    frameworkErrors: (error, request, reply) => {
      request.owner = ''
      request.principal = null // such a request is not made from our decorated kind
      request.bodyRead = false
      begin(request, reply)
      if (request.url.startsWith('/api/v1/messages/'))
        readStatus(request).then(
          (principal) => answerRefusal(face, request, reply, isRefusal(principal) ? principal : notAMessageId),
          (fault: unknown) => answerFault(face, request, reply, fault),
        )
      else if (error.code === 'FST_ERR_BAD_URL' && request.url.includes('%'))
        answerRefusal(face, request, reply, badEncoding)
      else answerNotFound(face, request, reply)
    },
  })
  app.server.maxConnections = limits.httpConnectionsMax
  // A client that has said everything and closes its side (a half-closed connection) still wants to hear whether its mail was accepted. Node has no
  // public name for this.
  Object.assign(app.server, { httpAllowHalfOpen: true })
  // Anything on this machine may be a proxy that nobody named in the settings.
  const proxies = ['127.0.0.0/8', '::1', ...options.trustProxy]
  closeSilentOnes(app.server)
  boundConnections(app.server, limits.httpConnectionsPerAddressMax, proxies)
  const mayCome = boundRequests(limits.httpConnectionsPerAddressMax)
  const mayComeAhead = boundPipelines(limits.httpPipelinedMax)
  // Node would say "100 Continue" before we have looked at the key; `readBody` says it when the body is wanted.
  app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response))
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  app.server.on('connect', (_request, stream) => {
    const socket = stream as Socket // of a plain server
    socket.on('error', () => socket.destroy()) // Node has taken its own listener off
    answerMalformed({ code: 'tunnel' }, socket, nextId(), carried)
  })

  app.decorateRequest('principal', null)
  app.decorateRequest('owner', '')
  app.decorateRequest('bodyRead', false)
  app.decorateRequest('beganAt', 0)
  // Routes read their own bodies, whatever their type. Fastify would refuse a type that is none before it is known who asks.
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
    app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  app.setErrorHandler((error, request, reply) => answerFault(face, request, reply, error))
  app.setNotFoundHandler((request, reply) => answerNotFound(face, request, reply))
  app.addHook('onRequest', (request, reply, done) => {
    begin(request, reply)
    if (!mayComeAhead(request, reply)) answerRefusal(face, request, reply, tooFarAhead)
    else if (!mayCome(request, reply)) answerRefusal(face, request, reply, crowded)
    else if (request.is404) answerNotFound(face, request, reply)
    else {
      const refusal = wrongHead(request)
      if (refusal === undefined) return done()
      answerRefusal(face, request, reply, refusal)
    }
  })

  let stopping = false
  const holdAnswer = boundAnswers(limits.unreadAnswersBytesMax)
  app.addHook('onSend', (request, reply, payload, done) => {
    holdAnswer(request, reply, payload)
    // For requests that began before the stop; Fastify says it to later ones.
    if (stopping) reply.header('connection', 'close')
    done()
  })

  app.addHook('preClose', (done) => {
    stopping = true
    const until = performance.now() + limits.httpLastBytesMs
    for (const { large, open } of Object.values(rooms)) {
      // Waiting for room may take longer than a stop may.
      large.close()
      open.until = until
    }
    done()
  })
  app.addHook('onClose', () => bodies.stop())
  sendRoute(app, face, guesses, rooms.callers, bodies)
  statusRoute(app, face, guesses)
  feedRoute(app, face, rooms.strangers)
  const router = makeManagementRouter({ app, face, office: options.office, guesses, rooms })
  for (const routes of managementRoutes) routes(router)
  referenceRoutes(app, face)
  healthRoutes(app, face)
  dashboardRoutes(app, face)
  return app
}

const managementRoutes = [
  mailRoutes,
  senderRoutes,
  listRoutes,
  webhookRoutes,
  liveRoute,
  peopleRoutes,
  memberRoutes,
  operatorRoutes,
]

/** What every response carries. The reference page loosens the policy for itself. */
const everywhere = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cache-control': 'no-store',
}

/** Where the public side is HTTPS, browsers are told to stay there. */
const overTls = { ...everywhere, 'strict-transport-security': 'max-age=31536000' }

const noHost = refuse('invalid_request', 'An HTTP/1.1 request needs exactly one "Host" header.', { field: 'Host' })
const otherCoding = refuse(
  'invalid_request',
  '"Transfer-Encoding" may only be "chunked", over HTTP/1.1; send the JSON text as it is.',
  { field: 'Transfer-Encoding' },
)
const badEncoding = refuse(
  'invalid_request',
  'The address has a malformed percent-encoding: write each byte of its UTF-8 as "%" and two hexadecimal digits.',
  { field: 'path' },
)
const crowded = refuse(
  'service_unavailable',
  `${limits.httpConnectionsPerAddressMax} requests of your address are under way; nothing was accepted. Wait for some of them.`,
)
const tooFarAhead = refuse(
  'service_unavailable',
  `${limits.httpPipelinedMax} requests of this connection are not answered yet; this one was not looked at. Wait for their answers.`,
)
const manyHeaders = refuse('invalid_request', `The request has more than ${limits.requestHeadersMax} headers.`, {
  field: 'headers',
})

function wrongHead({ raw }: FastifyRequest) {
  if (raw.rawHeaders.length > 2 * limits.requestHeadersMax) return manyHeaders
  if (raw.httpVersionMinor === 1 && (raw.headers.host === undefined || raw.headers.host.includes(','))) return noHost
  // Node takes any list that ends in "chunked" (it refuses the others itself), and leaves what is before it on; a proxy before us may see another end
  // of the body (RFC 9112, 6.1).
  const coding = raw.headers['transfer-encoding']?.toLowerCase() ?? ''
  const odd = raw.httpVersionMinor === 1 ? /[ \t,]chunked$/ : /chunked$/
  if (odd.test(coding)) return otherCoding
  return undefined
}

/**
 * Ours alone: what a caller sends as an id is never believed. Unique over processes by the random part, short by the
 * counter.
 */
function requestIds(): () => string {
  const start = randomBytes(9).toString('base64url')
  let count = 0
  return () => `${start}-${(++count).toString(36)}`
}
