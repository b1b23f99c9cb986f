// A connection that came over a proxy: the proxy says first who the client is (proxy-header.ts). Nobody else may say so.
import type { Socket } from 'node:net'
import { afterPoll } from '../base/after-poll.ts'
import { readProxyHeader } from './proxy-header.ts'

export interface Introduction {
  /** With the client's address, if the proxy told one; nothing of what the client said is lost. */
  readonly known: (address: string | undefined) => void
  /** The proxy did not say what it should; `undefined`: it left without a word, as health checks do. */
  readonly failed: (why: string | undefined) => void
}

/** Ends with one of the two, within `ms`. */
export function introduce(socket: Socket, ms: number, { known, failed }: Introduction): void {
  let said = Buffer.alloc(0)
  let over = false
  const stop = (): void => {
    over = true
    clearTimeout(timer)
    socket.off('data', hear).off('end', leave).off('close', leave)
  }
  const fail = (why?: string): void => {
    stop()
    socket.destroy()
    failed(why)
  }
  const leave = (): void => fail(said.length === 0 ? undefined : 'it ended in the middle of its PROXY header')
  const hear = (chunk: Buffer): void => {
    said = Buffer.concat([said, chunk])
    const header = readProxyHeader(said)
    if (header === undefined) return
    if (header === 'malformed') return fail('what it said first is no PROXY header')
    stop()
    socket.pause()
    if (said.length > header.length) socket.unshift(said.subarray(header.length))
    known(header.address)
  }
  const tooLate = (): void => {
    if (!over) fail(`it said no PROXY header within ${ms / 1000} s`)
  }
  const timer = setTimeout(() => void afterPoll().then(tooLate), ms)
  socket.on('error', () => undefined)
  socket.on('data', hear).once('end', leave).once('close', leave)
}
