// Who asks, and may they: specification 5, decisions D. Decided from the headers alone, before a body is read: 401 key,
// then 403 scope.
import type { FastifyRequest } from 'fastify'
import { limits } from '../config.ts'
import type { Scope } from '../contract/operation.ts'
import { refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'
import type { Principal } from '../domain/submission.ts'
import { callerAddress } from './caller-address.ts'
import type { Face } from './face.ts'
import type { Guesses } from '../base/guesses.ts'

// One sentence for all that is unknown, revoked or expired: which of them is nobody's business.
const missing = refuse('invalid_api_key', 'Send your API key in the header "Authorization: Bearer <key>".')
const unknown = refuse(
  'invalid_api_key',
  'This API key is not valid; use one that is listed in the API & SMTP settings.',
)
const lacking = (scope: Scope): Refusal =>
  refuse('insufficient_scope', `This API key lacks the scope ${scope}; use a key that has it.`)

export type Gate = (request: FastifyRequest) => Promise<Principal | Refusal>

/** A gate for endpoints that need `scope`. */
export function gate(face: Face, guesses: Guesses, scope: Scope): Gate {
  const noScope = lacking(scope)
  return async (request) => {
    const secret = readBearer(request.headers.authorization)
    if (secret === undefined) return missing
    const principal = await face.doors.authenticate(secret)
    if (principal === undefined) {
      await guesses.slow(callerAddress(request))
      return unknown
    }
    request.principal = principal
    request.owner = principal.workspaceId
    return principal.scopes.has(scope) ? principal : noScope
  }
}

/**
 * The secret of an Authorization header (RFC 6750 2.1): the scheme in any case, then one word of visible ASCII. Two
 * such headers arrive joined by a comma and a space, and are none.
 */
function readBearer(header: string | undefined): string | undefined {
  if (header === undefined || header.length > limits.apiKeyCharactersMax) return undefined
  return /^bearer +([!-~]+)$/i.exec(header)?.[1]
}
