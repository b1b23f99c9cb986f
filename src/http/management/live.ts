// GET /api/v1/live: a stream that says when a workspace has changed. Bounded per process, workspace and person; it ends with the session or
// key that opened it, and at once when the server stops.
import { PassThrough } from 'node:stream'
import { limits } from '../../config.ts'
import { managementOperations as operations } from '../../contract/operations.ts'
import { refuse } from '../../domain/refusal.ts'
import type { By } from '../../workspace/workspace.ts'
import type { ManagementRouter } from '../manage.ts'

const crowded = refuse('too_many_attempts', 'Too many live streams are open; close some, or look again by hand.', {
  retryAfterSeconds: 30,
})

export function liveRoute({ app, member, office }: ManagementRouter): void {
  const open = new Map<PassThrough, By>()
  app.addHook('preClose', (done) => {
    for (const stream of open.keys()) stream.end()
    done()
  })

  member(operations.watch, ({ by, request, reply, whyNoLonger }) => {
    const ofWorkspace = [...open.values()].filter(({ workspaceId }) => workspaceId === by.workspaceId).length
    const own = [...open.values()].filter(({ actor }) => actor === by.actor).length
    if (
      own >= limits.liveConnectionsPerUserMax ||
      ofWorkspace >= limits.liveConnectionsPerWorkspaceMax ||
      open.size >= limits.liveConnectionsMax
    )
      return Promise.resolve(crowded)
    const stream = new PassThrough()
    open.set(stream, by)
    const say = (text: string): void => {
      // A reader that does not read gets no more: it is told again when it comes back.
      if (!stream.writableNeedDrain) stream.write(text)
    }
    const beat = async (): Promise<void> => {
      if ((await whyNoLonger()) !== undefined) stream.end()
      else say(': still here\n\n')
    }
    const timer = setInterval(() => void beat().catch(() => stream.end()), limits.liveHeartbeatMs)
    const stop = office.live.watch(by.workspaceId, () => say('event: changed\ndata: {}\n\n'))
    const { socket } = request
    // Every other answer has an end of its own; this one would be kept for somebody who has gone.
    const leave = (): void => void stream.end()
    const close = (): void => {
      socket.off('end', leave)
      clearInterval(timer)
      stop()
      open.delete(stream)
    }
    stream.once('finish', close)
    // Who left while we asked who it is: the response had been closed before, and the stream is destroyed without an end.
    stream.once('close', close)
    socket.once('end', leave)
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
    if (socket.readableEnded) leave()
    return Promise.resolve(stream)
  })
}
