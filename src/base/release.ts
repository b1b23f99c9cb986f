// Memory of large mail is given back when the last reader is done with it. Left to the collector it would count against nobody's room until then,
// and each 64 MB of it makes V8 mark the whole heap.

/** Gives the memory of these bytes back at once, unless they share it with others. Afterwards they are empty. */
export function release(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (buffer instanceof ArrayBuffer && buffer.byteLength > 0 && bytes.length === buffer.byteLength) buffer.transfer(0)
}
