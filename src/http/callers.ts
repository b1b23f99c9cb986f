// Who asks a management endpoint: a key of the workspace, or a person with a session. A cookie is sent by browsers whoever made them ask, so a
// request that changes something must show that it comes from the dashboard itself (attack T8): a header that other sites cannot set without
// our leave, and `Origin` and `Sec-Fetch-Site`, where the browser sends them, that name us.
import type { FastifyRequest } from 'fastify'
import type { Access, Operation, Scope } from '../contract/operation.ts'
import { isRefusal, refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'
import { scopesOfRole } from '../domain/scopes.ts'
import type { Principal } from '../domain/submission.ts'
import { findHolder, type By, type Holder, type Office } from '../workspace/workspace.ts'
import { gate, type Gate } from './authenticate.ts'
import type { Jar } from './cookies.ts'
import type { Face } from './face.ts'
import type { Guesses } from '../base/guesses.ts'
import { parseUuid } from '../base/uuid.ts'

export interface Caller {
  /** Of endpoints of a workspace. */
  readonly by?: By
  readonly principal?: Principal
  /** Of a session. */
  readonly holder?: Holder
}

const notSignedIn = refuse('not_signed_in', 'There is no session; sign in, or send an API key.')
const keyAlone = refuse('not_signed_in', 'This endpoint is for people; an API key cannot use it.')
const foreign = refuse(
  'cross_site_request',
  'This request did not come from the dashboard; with a session, send the header "X-Posthorn-Csrf: 1" from its own pages.',
)
const noOperator = refuse('insufficient_scope', 'Only operators of this installation may do this.')
const noMember = refuse('insufficient_scope', 'You are not a member of this workspace.', {
  field: 'X-Posthorn-Workspace',
})
const whichWorkspace = refuse(
  'invalid_request',
  'Name the workspace in the header "X-Posthorn-Workspace"; the session tells which there are.',
  { field: 'X-Posthorn-Workspace' },
)
const lacking = (scope: Scope, role: string): Refusal =>
  refuse('insufficient_scope', `Your role ${role} lacks ${scope}; ask an owner of the workspace for another one.`)

export type Entrance = (request: FastifyRequest) => Promise<Caller | Refusal>

/** Why a caller that was let in before may not go on. */
export async function whyNoLonger(
  enter: Entrance,
  request: FastifyRequest,
  { by }: Caller,
): Promise<Refusal | undefined> {
  const now = await enter(request)
  if (isRefusal(now)) return now
  // A person who named no workspace was let into their only one, which may be another by now.
  return now.by?.workspaceId === by?.workspaceId ? undefined : noMember
}

/** The entrance of one endpoint. */
export function entrance(tools: {
  readonly face: Face
  readonly office: Office
  readonly guesses: Guesses
  readonly jar: Jar
}): (operation: Pick<Operation, 'method' | 'scope'> & { readonly access: Access }) => Entrance {
  const { face, office, guesses, jar } = tools
  const ownOrigin = new URL(face.publicUrl).origin
  return ({ method, scope, access }) => {
    const isSafe = method === 'get'
    const byKey: Gate | undefined = scope === undefined ? undefined : gate(face, guesses, scope)

    return async (request) => {
      if (access !== 'anyone' && request.headers.authorization !== undefined) {
        if (byKey === undefined) return keyAlone
        const principal = await byKey(request)
        if (isRefusal(principal)) return principal
        return { principal, by: byOf(principal) }
      }
      const token = jar.token(request)
      if (token === undefined && access !== 'anyone') return notSignedIn
      if (!isSafe && !isOurs(request, ownOrigin)) return foreign
      const workspace = request.headers['x-posthorn-workspace'] ?? workspaceOfQuery(request)
      if (Array.isArray(workspace)) return whichWorkspace
      const holder = token === undefined ? undefined : await findHolder(office.db, token, workspace)
      if (access === 'anyone') return holder === undefined ? {} : { holder }
      if (holder === undefined) return notSignedIn
      request.owner = holder.workspaceId ?? holder.userId
      if (access === 'session') return { holder }
      if (access === 'operator') return holder.operator ? { holder } : noOperator
      if (holder.workspaceId === undefined || holder.role === undefined)
        return workspace === undefined || parseUuid(workspace) === undefined ? whichWorkspace : noMember
      const scopes = new Set<string>(scopesOfRole[holder.role])
      if (scope !== undefined && !scopes.has(scope)) return lacking(scope, holder.role)
      return {
        holder,
        by: { workspaceId: holder.workspaceId, actor: `user:${holder.userId}`, role: holder.role, scopes },
      }
    }
  }
}

/** `EventSource` cannot send headers. */
function workspaceOfQuery({ query }: FastifyRequest): string | undefined {
  const { workspace } = query as { workspace?: unknown }
  return typeof workspace === 'string' ? workspace : undefined
}

function byOf(principal: Principal): By {
  return { workspaceId: principal.workspaceId, actor: principal.actor, scopes: principal.scopes }
}

function isOurs(request: FastifyRequest, ownOrigin: string): boolean {
  const { origin, 'sec-fetch-site': site, 'x-posthorn-csrf': mark } = request.headers
  if (mark !== '1') return false
  if (site !== undefined && site !== 'same-origin') return false
  if (origin === undefined) return true
  return origin === ownOrigin || (URL.canParse(origin) && new URL(origin).host === request.headers.host)
}
