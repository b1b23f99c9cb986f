// What does not get as far as a request: bytes that are not HTTP, heads that are too large or too slow. Answered as
// Error JSON like the rest, then the connection closes (attack Q14).
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { refuse } from '../domain/refusal.ts'
import { errorBody } from './face.ts'

interface Answer {
  readonly status: string
  readonly words: string
}
const malformed = { status: '400 Bad Request', words: 'This is not a well-formed HTTP/1.1 request.' }
const answers: Readonly<Record<string, Answer>> = {
  HPE_HEADER_OVERFLOW: {
    status: '431 Request Header Fields Too Large',
    words: 'The request line and the headers are larger than 16 KB together.',
  },
  tunnel: { status: '400 Bad Request', words: 'There is no tunnel here; ask for a path of the API.' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: '408 Request Timeout', words: 'The request did not arrive in time.' },
}

export function answerMalformed(error: { readonly code?: string }, socket: Socket, requestId: string): void {
  if (!socket.writable || error.code === 'ECONNRESET' || owesAnswer(socket)) {
    socket.destroy()
    return
  }
  const { status, words } = answers[error.code ?? ''] ?? malformed
  const body = JSON.stringify(errorBody(refuse('invalid_request', words)))
  socket.end(
    [
      `HTTP/1.1 ${status}`,
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${requestId}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
    () => socket.destroy(),
  )
}

/**
 * An earlier request on this connection has arrived whole and waits for its answer: the caller would take ours for it,
 * and a message that was accepted would look refused. Better no answer than a false one.
 */
function owesAnswer(socket: Socket): boolean {
  // Node keeps the response under way here; there is no public name for it.
  const { _httpMessage: response } = socket as Socket & { _httpMessage?: ServerResponse | null }
  return response !== undefined && response !== null && (response.headersSent || response.req.complete)
}
