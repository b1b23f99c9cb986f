// For load balancers and supervisors (operating contract): /healthz says that the process lives, /readyz that it can do
// its work.
import type { FastifyInstance } from 'fastify'
import { jsonType } from './face.ts'
import type { Face } from './face.ts'

export function healthRoutes(app: FastifyInstance, face: Face): void {
  app.get('/healthz', (_request, reply) => reply.header('content-type', jsonType).send('{"status":"ok"}'))
  app.get('/readyz', async (_request, reply) => {
    const { ready, ...told } = await face.doors.ready()
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not_ready', ...told })
  })
}
