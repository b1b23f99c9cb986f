// GET /api/v1/live: a stream that says when a workspace has changed. Bounded per process and per person; it ends with the session that opened
// it, and at once when the server stops.
import { PassThrough } from 'node:stream'
import { limits } from '../../config.ts'
import { managementOperations as operations } from '../../contract/operations.ts'
import { refuse } from '../../domain/refusal.ts'
import { findHolder } from '../../workspace/workspace.ts'
import type { Desk } from '../manage.ts'

const crowded = refuse('too_many_attempts', 'Too many live streams are open; close some, or look again by hand.', {
  retryAfterSeconds: 30,
})

export function liveRoute({ app, member, office, jar }: Desk): void {
  const open = new Map<PassThrough, string>()
  app.addHook('preClose', (done) => {
    for (const stream of open.keys()) stream.end()
    done()
  })

  member(operations.watch, ({ by, request, reply }) => {
    const own = [...open.values()].filter((actor) => actor === by.actor).length
    if (own >= limits.liveConnectionsPerUserMax || open.size >= limits.liveConnectionsMax)
      return Promise.resolve(crowded)
    const stream = new PassThrough()
    open.set(stream, by.actor)
    const say = (text: string): void => {
      // A reader that does not read gets no more: it is told again when it comes back.
      if (!stream.writableNeedDrain) stream.write(text)
    }
    const token = jar.token(request)
    const beat = async (): Promise<void> => {
      say(': still here\n\n')
      if (token === undefined) return
      const holder = await findHolder(office.db, token, by.workspaceId)
      if (holder?.workspaceId === undefined) stream.end()
    }
    const timer = setInterval(() => void beat().catch(() => stream.end()), limits.liveHeartbeatMs)
    const stop = office.live.watch(by.workspaceId, () => say('event: changed\ndata: {}\n\n'))
    const close = (): void => {
      clearInterval(timer)
      stop()
      open.delete(stream)
    }
    stream.once('finish', close)
    reply.raw.once('close', () => {
      close()
      stream.destroy()
    })
    // Its connection ends with it, so that a stop of the server waits for nobody.
    reply.headers({
      'content-type': 'text/event-stream; charset=utf-8',
      'x-accel-buffering': 'no',
      connection: 'close',
    })
    say('event: ready\ndata: {}\n\n')
    return Promise.resolve(stream)
  })
}
