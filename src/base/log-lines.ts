// Where the log's lines go: standard error, in blocks. A log must not hold up the service: while nobody reads it lines are kept, within bounds, and
// what cannot be written at all (a full disk, a reader that has gone) is dropped. Whoever waits for such a write waits for ever, and hears no signal.
import { writeSync } from 'node:fs'
import { limits } from '../config.ts'

export interface Lines {
  write(line: string): void
  /** Everything so far, as far as it is taken. */
  flush(): void
}

const blockCharacters = 8_192
const everyMs = 1_000

/** `fd` 2 but in tests. */
export function lines(fd = 2): Lines {
  let fresh = ''
  let left: Buffer = Buffer.alloc(0)

  /** False while the other side takes nothing. */
  const flush = (): boolean => {
    if (fresh !== '') left = Buffer.concat([left, Buffer.from(fresh)])
    fresh = ''
    try {
      while (left.length > 0) left = left.subarray(writeSync(fd, left))
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
