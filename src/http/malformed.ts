// What does not get as far as a request: bytes that are not HTTP, heads that are too large or too slow. Answered as
// Error JSON like the rest, then the connection closes (attack Q14).
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { refuse } from '../domain/refusal.ts'
import { errorBody } from './face.ts'

interface Answer {
  readonly status: string
  readonly words: string
  /** What is wrong: of a request that cannot be read, no more can be named than this. */
  readonly field: string
}
const malformed: Answer = {
  status: '400 Bad Request',
  words: 'This is not a well-formed HTTP/1.1 request.',
  field: 'request',
}
const answers: Readonly<Record<string, Answer>> = {
  HPE_HEADER_OVERFLOW: {
    status: '431 Request Header Fields Too Large',
    words: 'The request line and the headers are larger than 16 KB together.',
    field: 'headers',
  },
  tunnel: {
    status: '400 Bad Request',
    words: 'There is no tunnel here; ask for a path of the API.',
    field: 'method',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: '408 Request Timeout',
    words: 'The request did not arrive in time.',
    field: 'request',
  },
}

/** `carried`: the headers that every answer has. */
export function answerMalformed(
  error: { readonly code?: string },
  socket: Socket,
  requestId: string,
  carried: Readonly<Record<string, string>>,
): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const owed = owedAnswer(socket)
  if (owed !== undefined) {
    // Whatever comes meanwhile is no request either, and Node tells of each piece of it.
    if (waiting.has(owed)) return
    waiting.add(owed)
    owed.once('close', () => answerMalformed(error, socket, requestId, carried))
    return
  }
  const { status, words, field } = answers[error.code ?? ''] ?? malformed
  const body = JSON.stringify(errorBody(refuse('invalid_request', words, { field })))
  socket.end(
    [
      `HTTP/1.1 ${status}`,
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${requestId}`,
      ...Object.entries(carried).map(([name, value]) => `${name}: ${value}`),
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
    () => socket.destroy(),
  )
}

const waiting = new WeakSet<ServerResponse>()

/**
 * Of an earlier request on this connection, which has arrived whole: its caller would take ours for it, and a message that was accepted would look
 * refused. It goes first, or whoever sent a byte too many would never hear what became of their mail, and send it again.
 */
function owedAnswer(socket: Socket): ServerResponse | undefined {
  // Node keeps the response under way here; there is no public name for it.
  const { _httpMessage: response } = socket as Socket & { _httpMessage?: ServerResponse | null }
  if (response === undefined || response === null) return undefined
  return response.headersSent || response.req.complete ? response : undefined
}
