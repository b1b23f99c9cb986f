// What a client of tests hears.
import { once } from 'node:events'
import type { Socket } from 'node:net'

/** `until` waits for words, `rest` for the end; both give all that was said. */
export function hearing(socket: Socket) {
  let text = ''
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
  const until = async (words: string): Promise<string> => {
    while (!text.includes(words)) {
      if (socket.closed) throw new Error(`closed before ${words}: ${text}`)
      await Promise.race([once(socket, 'data'), once(socket, 'close')])
    }
    return text
  }
  const rest = async (): Promise<string> => {
    if (!socket.closed) await once(socket, 'close')
    return text
  }
  return { until, rest }
}
