// How every management endpoint is run: who asks, then path, query and body by the published schemas, then the act, then its answer. What
// people cannot have is a `Mistake` of the workspace room, and becomes a refusal here.
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { limits } from '../config.ts'
import type { BodyOf, Managed, OkOf, PathOf, QueryOf } from '../contract/management/managed.ts'
import { isRefusal, refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'
import type { Principal } from '../domain/submission.ts'
import { mistakeOf, type Browser, type By, type Holder, type Office } from '../workspace/workspace.ts'
import { callerAddress } from './caller-address.ts'
import { entrance, whyNoLonger, type Caller } from './callers.ts'
import { makeJar } from './cookies.ts'
import { answerRefusal, counted, jsonType, noteBrokenOff, type Face, type HttpDoors } from './face.ts'
import type { Guesses } from '../base/guesses.ts'
import { sourceOf } from '../base/networks.ts'
import { doneFor } from '../base/turns.ts'
import { parseUuid } from '../base/uuid.ts'
import { bodyLimit, isTooLarge, readBody, type BodyLimit, type BodyRooms } from './read-body.ts'
import { notJson, readJson } from './json-body.ts'
import { makeQueryReader, makeReader, noQuery } from './shape.ts'

/** A success as it is sent: times may still be dates. */
export type Sent<T> = T extends string
  ? T | Date
  : T extends readonly (infer Item)[]
    ? readonly Sent<Item>[]
    : T extends object
      ? { readonly [Name in keyof T]: Sent<T[Name]> }
      : T

export interface Ask<O> {
  readonly body: BodyOf<O>
  readonly query: QueryOf<O>
  /** Ids in lower case. */
  readonly path: PathOf<O>
  readonly browser: Browser
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  /** For what lasts: asks again whether the caller may do this, and says why not. */
  readonly whyNoLonger: () => Promise<Refusal | undefined>
}
type Answering<O> = Promise<Sent<OkOf<O>> | (undefined extends OkOf<O> ? void : never) | Refusal | Buffer | Readable>
type Handler<O, Who> = (ask: Ask<O> & Who) => Answering<O>

/** Registers endpoints; each kind hands over who asks. */
export interface ManagementRouter {
  readonly app: FastifyInstance
  readonly office: Office
  readonly doors: HttpDoors
  readonly jar: ReturnType<typeof makeJar>
  /** A key or a member of a workspace. */
  readonly member: <O extends Managed>(
    operation: O,
    handle: Handler<O, { readonly by: By; readonly principal?: Principal; readonly holder?: Holder }>,
    bytesMax?: number,
  ) => void
  /** A person, whatever the workspace; an operator where the operation says so. */
  readonly person: <O extends Managed>(operation: O, handle: Handler<O, { readonly holder: Holder }>) => void
  readonly anyone: <O extends Managed>(operation: O, handle: Handler<O, { readonly holder?: Holder }>) => void
}

export function makeManagementRouter(tools: {
  readonly app: FastifyInstance
  readonly face: Face
  readonly office: Office
  readonly guesses: Guesses
  /** Of those who are known, and of those who are not yet. */
  readonly rooms: { readonly callers: BodyRooms; readonly strangers: BodyRooms }
}): ManagementRouter {
  const { app, face, office, guesses, rooms } = tools
  const jar = makeJar(app, face.publicUrl)
  const entranceOf = entrance({ face, office, guesses, jar })

  const roomsFor = (request: FastifyRequest, caller: Caller): [BodyRooms, owner: string] => [
    isKnown(caller) ? rooms.callers : rooms.strangers,
    ownerOf(request, caller),
  ]

  const route = (
    operation: Managed,
    handle: (ask: Ask<Managed> & Caller) => Promise<unknown>,
    bytesMax: number = limits.managementRequestBytesMax,
  ): void => {
    const url = operation.path.replaceAll(/\{(\w+)\}/g, ':$1')
    const enter = entranceOf(operation)
    const readQuery = makeQueryReader(operation.query ?? noQuery)
    const readShape = operation.body === undefined ? undefined : makeReader(operation.body)
    const readThePath = pathReader(operation)
    const words = `The body is larger than ${bytesMax} bytes, which is all that this endpoint takes.`
    const limit = bodyLimit(bytesMax, words)

    const run = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
      const entered = await enter(request)
      if (isRefusal(entered)) return entered
      const path = readThePath(request.params as Record<string, string>)
      if (isRefusal(path)) return path
      const query = readQuery(request.query)
      if (isRefusal(query)) return query
      const body = readShape === undefined ? noBody : await bodyOf(request, reply, ...roomsFor(request, entered), limit)
      if (isRefusal(body)) return body
      // A large body keeps its room until the answer: an import is held in memory while its rows are written.
      try {
        const json = readShape === undefined ? noBody : readJson(body.bytes)
        const value = isRefusal(json) || readShape === undefined ? json : readShape(json.value)
        if (isRefusal(value)) return value
        // A body can be held back for minutes: by then the caller may have been removed, or the key revoked.
        const caller = readShape === undefined ? entered : await enter(request)
        if (isRefusal(caller)) return caller
        const ask = {
          ...caller,
          path,
          query: query.value,
          body: value.value,
          browser: jar.browser(request),
          request,
          reply,
          whyNoLonger: () => whyNoLonger(enter, request, caller),
        }
        return await doneFor(ownerOf(request, caller), () => handle(ask as never))
      } finally {
        body.done()
      }
    }

    app.route({
      method: operation.method.toUpperCase(),
      url,
      handler: async (request, reply) => {
        const answer = await run(request, reply).catch((error: unknown) => {
          const mistake = mistakeOf(error)
          if (mistake === undefined) throw error
          return mistake.refusal
        })
        if (isRefusal(answer)) {
          if (answer.code === 'wrong_credentials') await guesses.slow(callerAddress(request))
          return answerRefusal(face, request, reply, answer)
        }
        counted(face, request, operation.ok.status)
        reply.code(operation.ok.status)
        if (operation.ok.schema === undefined) return reply.send()
        if (answer instanceof Readable) {
          if (request.method === 'HEAD') return reply.send(unread(answer))
          answer.once('error', (error) => {
            if (reply.raw.headersSent && mistakeOf(error) === undefined) noteBrokenOff(face, request, error)
          })
        }
        if (Buffer.isBuffer(answer) || answer instanceof Readable) return reply.send(answer)
        return reply.header('content-type', jsonType).send(JSON.stringify(answer))
      },
    })
  }

  return {
    app,
    office,
    doors: face.doors,
    jar,
    member: (operation, handle, bytesMax) => route(operation, handle as never, bytesMax),
    person: (operation, handle) => route(operation, handle as never),
    anyone: (operation, handle) => route(operation, handle as never),
  }
}

const isKnown = ({ by, holder }: Caller): boolean => by !== undefined || holder !== undefined

/** Whose share of scarce things a request takes: a workspace's, a person's, or that of a stranger's address. */
const ownerOf = (request: FastifyRequest, { by, holder }: Caller): string =>
  by?.workspaceId ?? holder?.userId ?? sourceOf(callerAddress(request))

/** In place of a stream that nobody reads: Fastify would read it to its end, even when the caller has long gone. */
function unread(answer: Readable): Readable {
  answer.destroy()
  return Readable.from([])
}

function pathReader({ parameters = [] }: Managed): (given: Record<string, string>) => Record<string, string> | Refusal {
  const isId = new Map(parameters.map(({ name, schema }) => [name, (schema as { format?: string }).format === 'uuid']))
  return (given) => {
    const read: Record<string, string> = {}
    for (const [name, text] of Object.entries(given)) {
      const value = isId.get(name) === true ? parseUuid(text) : text
      if (value === undefined || value.includes('\0'))
        return refuse('invalid_request', `"${name}" must be ${isId.get(name) === true ? 'a UUID' : 'plain text'}.`, {
          field: name,
        })
      read[name] = value
    }
    return read
  }
}

const noBody = { bytes: Buffer.alloc(0), value: undefined, done: () => undefined }

/** A body of at most so many bytes, said to be JSON; of a larger one nothing more is read. `done` gives back the room that it takes. */
async function bodyOf(
  request: FastifyRequest,
  reply: FastifyReply,
  rooms: BodyRooms,
  owner: string,
  limit: BodyLimit,
): Promise<{ readonly bytes: Buffer; readonly done: () => void } | Refusal> {
  if (isTooLarge(request.raw, limit)) return limit.tooLarge
  const wrong = notJson(request.raw)
  if (wrong !== undefined) return wrong
  const body = await readBody(request.raw, reply.raw, rooms, owner, limit)
  if (isRefusal(body)) return body
  request.bodyRead = true
  return { bytes: body.bytes, done: () => rooms.large.give(owner, body.heldBytes) }
}
