// Where a server's words go: the log's lines in blocks to standard error, and beside them its sentences for people. None of them may hold up the
// service: while nobody reads they are kept, within bounds, and what cannot be written at all (a full disk, a reader that has gone) is dropped.
// Whoever waits for such a write, as `process.stdout` does at a pipe, waits for ever, and hears no signal.
import { writeSync } from 'node:fs'
import { limits } from '../config.ts'

export interface Lines {
  write(line: string): void
  /** Everything so far, as far as it is taken. */
  flush(): void
}

const blockCharacters = 8_192
const everyMs = 1_000

/** What a pipe takes as a whole or not at all (PIPE_BUF of Linux): of more it may take a part, and the other process of the service write between. */
export const wholeOctets = 4_096

/** How many octets are written at once: whole lines, and of a longer one all. */
function wholeLines(left: Buffer): number {
  if (left.length <= wholeOctets) return left.length
  const within = left.lastIndexOf('\n', wholeOctets - 1)
  const end = within === -1 ? left.indexOf('\n') : within
  return end === -1 ? left.length : end + 1
}

const all = new Map<number, Lines>()

/** The one of this descriptor: 2 for the log, 1 for standard output. */
export function lines(fd: 1 | 2): Lines {
  const known = all.get(fd)
  if (known !== undefined) return known
  const made = makeLines(fd)
  all.set(fd, made)
  return made
}

/** At once, as far as it is taken. */
export function say(fd: 1 | 2, text: string): void {
  lines(fd).write(text)
  lines(fd).flush()
}

function makeLines(fd: number): Lines {
  let fresh = ''
  let left: Buffer = Buffer.alloc(0)

  /** False while the other side takes nothing. */
  const flush = (): boolean => {
    if (fresh !== '') left = Buffer.concat([left, Buffer.from(fresh)])
    fresh = ''
    try {
      while (left.length > 0) left = left.subarray(writeSync(fd, left, 0, wholeLines(left)))
    } catch (error) {
      const waits = (error as NodeJS.ErrnoException).code === 'EAGAIN'
      if (!waits || left.length > limits.logHeldBytesMax) left = Buffer.alloc(0)
      return !waits
    }
    return true
  }

  setInterval(flush, everyMs).unref()
  process.once('exit', () => {
    // A pipe is emptied in a moment, or by nobody.
    for (let tries = 0; !flush() && tries < limits.logGoodbyeMs / 10; tries++)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
  })
  return {
    write: (line) => {
      fresh += line
      if (fresh.length >= blockCharacters) flush()
    },
    flush,
  }
}
