// A peer: Fastify with the schemas of the contract and no database. What an HTTP face of this shape could do at most in one process.
import { randomUUID } from 'node:crypto'
import { fastify } from 'fastify'
import { operations } from '../../src/contract/operations.ts'
import type { SendMessageRequest, SendMessageResponse } from '../../src/contract/message.ts'

const { send } = operations
const organizationId = randomUUID()
const senders = Array.from({ length: 8 }, () => ({ key: `bench_${randomUUID()}`, mailboxId: randomUUID() as string }))
const bearers = new Set(senders.map(({ key }) => `Bearer ${key}`))
// Without Fastify's search for __proto__ in every body: nothing here copies members.
const app = fastify({ logger: false, onProtoPoisoning: 'ignore', onConstructorPoisoning: 'ignore' })

app.post<{ Body: SendMessageRequest }>(
  send.path,
  { schema: { body: send.body, response: { 202: send.answers[202].schema } } },
  (request, reply) => {
    const { authorization } = request.headers
    if (authorization === undefined || !bearers.has(authorization))
      return reply.code(401).send({ error: 'no such key' })
    const { mailboxId, recipient, subject, bodyText, metadata } = request.body
    const id = randomUUID()
    const answer: SendMessageResponse = {
      id,
      status: 'queued',
      message: {
        id,
        organizationId,
        mailboxId,
        direction: 'outbound',
        status: 'queued',
        sender: 'shop@bench.example',
        recipient,
        subject,
        bodyText,
        ...(metadata !== undefined && { metadata }),
        createdAt: new Date().toISOString(),
      },
    }
    return reply.code(202).send(answer)
  },
)

await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) })
console.log(`ready ${JSON.stringify(senders)}`)
