// Ports for programs that must be told theirs before they listen.
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

/** Below those that systems give to outgoing connections and to whoever asks for any (Linux from 32,768 on): nobody gets one of these by chance meanwhile. */
const first = 10_000
const end = 32_768
const triesMax = 1_000

/** Ports that were free a moment ago, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const held = new Map<number, Server>()
  for (let tries = 0; held.size < count; tries++) {
    if (tries === triesMax) throw new Error(`no ${count} free ports were found between ${first} and ${end}`)
    const port = randomInt(first, end)
    const server = createServer()
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening')
      held.set(port, server)
    } catch {
      // Somebody has it.
    }
  }
  await Promise.all([...held.values()].map((server) => once(server.close(), 'close')))
  return [...held.keys()]
}
