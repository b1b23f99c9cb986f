// Content as it goes over the wire (RFC 5321 4.5.2): dot-stuffed, in blocks, and without its last CRLF, which is held back so that the
// five octets of the end, CRLF.CRLF, can be written alone, after the arm (delivery-semantics, byte discipline).
import { limits } from '../config.ts'

export interface Content {
  /** Header and body, lines with CRLF, CRLF at the end, not dot-stuffed. */
  readonly content: Buffer | readonly Buffer[]
  readonly size: number
}

const dot = Buffer.from('.')
const LF = 10
const CR = 13
const DOT = 46

/** What ends the content and asks for the reply. Nothing but this is ever written after the arm. */
export const finalDot: Buffer = Buffer.from('\r\n.\r\n')

/**
 * The blocks to be written before the final dot. Looks for LF and dot rather than CRLF and dot: in content with CRLF alone (which is
 * promised) it is the same, and in any other no line of one dot can end the content early at a server that takes a bare LF for a line end.
 */
export function* wireBlocks(content: Buffer | readonly Buffer[]): Generator<Buffer> {
  const parts = Buffer.isBuffer(content) ? [content] : content
  let last = -1
  let beforeLast = -1
  for (const part of parts) {
    if (part.length === 0) continue
    beforeLast = part.length > 1 ? (part[part.length - 2] ?? -1) : last
    last = part[part.length - 1] ?? -1
  }
  if (beforeLast !== CR || last !== LF) throw new Error('content to transmit must end with CRLF')

  let left = parts.reduce((size, part) => size + part.length, 0) - 2
  let lineStart = true
  for (const part of parts) {
    const whole = part.length <= left ? part : part.subarray(0, left)
    left -= whole.length
    for (let at = 0; at < whole.length; at += limits.smtpBlockBytes) {
      const block = whole.subarray(at, at + limits.smtpBlockBytes)
      yield stuffed(block, lineStart)
      lineStart = block[block.length - 1] === LF
    }
  }
}

/** One block with a dot before each dot that begins a line. The same memory where there is none. */
function stuffed(block: Buffer, lineStart: boolean): Buffer {
  const startsWithDot = lineStart && block[0] === DOT
  let found = block.indexOf('\n.', 0, 'latin1')
  if (found === -1 && !startsWithDot) return block
  const pieces: Buffer[] = startsWithDot ? [dot] : []
  let from = 0
  for (; found !== -1; found = block.indexOf('\n.', from, 'latin1')) {
    pieces.push(block.subarray(from, found + 1), dot)
    from = found + 1
  }
  pieces.push(block.subarray(from))
  return Buffer.concat(pieces)
}
