// Ports for programs that must be told theirs before they listen.
import { randomInt } from 'node:crypto'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { Trouble, wordsOf } from './trouble.ts'

/** Below those that systems give to outgoing connections and to whoever asks for any (Linux from 32,768 on): nobody gets one of these by chance meanwhile. */
const first = 10_000
const end = 32_768
const triesMax = 1_000

/**
 * Ports of 127.0.0.1 that were free a moment ago, all different. Whoever asks here meanwhile, in this process or another one, gets others as long as
 * this process lives: each is marked by a UDP socket of the same number, in whose way nobody is who listens for TCP.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  for (let tries = 0; ports.length < count; tries++) {
    if (tries === triesMax) throw new Error(`no ${count} free ports were found between ${first} and ${end}`)
    const port = randomInt(first, end)
    const mark = await markOf(port)
    if (mark === undefined) continue
    if (await isFree(port)) ports.push(port)
    else mark.close()
  }
  return ports
}

/** Undefined where another process has it, or this one. */
async function markOf(port: number): Promise<Socket | undefined> {
  const mark = createSocket('udp4')
  mark.unref()
  try {
    mark.bind(port, '127.0.0.1')
    await once(mark, 'listening')
    return mark
  } catch (error) {
    mark.close()
    mustBeTaken(error)
    return undefined
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
  } catch (error) {
    mustBeTaken(error)
    return false
  }
  await once(server.close(), 'close')
  return true
}

/** Whatever else it is, an address that this machine does not have or a want of files, is the same at every other port. */
function mustBeTaken(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE')
    throw new Trouble(`no free port could be looked for: ${wordsOf(error)}`, { cause: error })
}
