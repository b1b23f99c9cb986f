// Memory of large mail is given back when the last reader is done with it. Left to the collector it would count against nobody's room until then,
// and each 64 MB of it makes V8 mark the whole heap.
import { limits } from '../config.ts'

/** Gives the memory of these bytes back at once, unless they share it with others. Afterwards they are empty. */
export function release(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (buffer instanceof ArrayBuffer && buffer.byteLength > 0 && bytes.length === buffer.byteLength) buffer.transfer(0)
}

/** In one piece. Each large one is let go as soon as it is copied, so that a mail is not there twice meanwhile; a small one may still be read by others. */
export function joined(pieces: readonly Buffer[]): Buffer {
  const whole = Buffer.allocUnsafe(pieces.reduce((size, each) => size + each.length, 0))
  let at = 0
  for (const each of pieces) {
    at += each.copy(whole, at)
    if (each.length >= limits.largeRequestBytes) release(each)
  }
  return whole
}
