// The one way in, for what a command sends: it admits by itself, so whether the service runs makes no difference.
import { makeAccept, makeAcceptMail, openAcceptance } from '../accept/accept.ts'
import { makeLog } from '../base/log.ts'
import type { Tools } from './tools.ts'

interface Doors {
  readonly accept: ReturnType<typeof makeAccept>
  readonly acceptMail: ReturnType<typeof makeAcceptMail>
}

export async function withAcceptance<T>(
  { connection, db, hostname, settings }: Tools,
  work: (doors: Doors) => Promise<T>,
): Promise<T> {
  const { tools, closing } = openAcceptance({
    connection,
    name: 'posthorn command accept',
    connectionsMax: 1,
    readDb: db,
    stageDb: db,
    clamd: settings.POSTHORN_CLAMD,
    hostname,
    log: makeLog('error'),
  })
  try {
    await tools.ids.synchronize()
    return await work({ accept: makeAccept(tools), acceptMail: makeAcceptMail(tools) })
  } finally {
    for (const close of closing) await close()
  }
}
