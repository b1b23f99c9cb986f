// The door of this face: one HTTP server for the REST API (specification 4), the API reference and the health checks. It
// turns requests into submissions and answers into JSON; every rule is behind the injected doors.
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { cannotListen, type Address } from '../base/listening.ts'
import { lifecycle } from '../base/service.ts'
import type { Service } from '../base/service.ts'
import { limits } from '../config.ts'
import { buildApp } from './app.ts'
import type { HttpOptions } from './app.ts'

export interface HttpServer extends Service {
  /** The port that is listened on; 0 while stopped. */
  readonly port: number
}

/** The server as a service. `port` 0 takes a free one. */
export function httpServer({ host, port, from, ...options }: HttpOptions & Address): HttpServer {
  let app: FastifyInstance | undefined
  const service = lifecycle(
    'http',
    async () => {
      const fresh = buildApp(options)
      await fresh.listen({ host, port }).catch((error: unknown) => {
        throw cannotListen('http', { host, port, from }, error)
      })
      app = fresh
    },
    async () => {
      const ending = app
      app = undefined
      if (ending === undefined) return
      // Requests under way get their answers, within bounds, and each says that it is the last one of its connection. What is idle then is closed, and
      // what becomes idle meanwhile: nobody else does that, and a client may keep its connection for a minute. Node alone would close it at once, also
      // where a request lies before it unread, and nobody could tell whether that mail was accepted.
      const { server } = ending
      const closeIdle = server.closeIdleConnections.bind(server)
      server.closeIdleConnections = () => undefined
      const idle = setInterval(closeIdle, limits.httpGoodbyeMs)
      const impatience = setTimeout(() => server.closeAllConnections(), limits.httpQuietMs)
      await ending.close().finally(() => {
        clearInterval(idle)
        clearTimeout(impatience)
      })
    },
  )
  return {
    ...service,
    get port() {
      return (app?.server.address() as AddressInfo | null | undefined)?.port ?? 0
    },
  }
}
