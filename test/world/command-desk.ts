// An operator at one desk: the commands that make what a test needs, one after the other in one process (commands.ts), which starts with the first of
// them. What a command takes is mostly its beginning, a third of a second of a processor. Tests of the commands themselves start each as people do.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export interface CommandDesk {
  /** What each printed; throws with the words of the one that failed. `{id}` stands for the id in the first answer. */
  run(all: readonly (readonly string[])[]): Promise<object[]>
  end(): Promise<void>
}

const program = fileURLToPath(new URL('commands.ts', import.meta.url))

export function commandDesk(env: Readonly<Record<string, string>>): CommandDesk {
  let desk: Running | undefined
  let turn: Promise<unknown> = Promise.resolve()
  return {
    run: (all) => {
      const answer = turn.then(async () => {
        const running = (desk ??= start(env))
        const line = await running.ask(JSON.stringify(all))
        if (line !== undefined) return JSON.parse(line) as object[]
        desk = undefined
        throw new Error(`one of these commands failed: ${JSON.stringify(all)}: ${await running.complaint()}`)
      })
      turn = answer.catch(() => undefined)
      return answer
    },
    end: async () => {
      await turn
      await desk?.end()
      desk = undefined
    },
  }
}

interface Running {
  /** Its answer; undefined: it has ended. */
  ask(line: string): Promise<string | undefined>
  /** What it said when it had ended. */
  complaint(): Promise<string>
  end(): Promise<void>
}

function start(env: Readonly<Record<string, string>>): Running {
  const child = spawn(process.execPath, [program], { env, stdio: 'pipe' })
  const ended = once(child, 'close')
  child.stdin.on('error', () => undefined) // it has ended, and no answer tells
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (piece: string) => (complaint += piece))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    ask: async (line) => {
      child.stdin.write(`${line}\n`)
      const { done, value } = await lines.next()
      return done === true ? undefined : value
    },
    complaint: async () => {
      await ended
      return complaint
    },
    end: async () => {
      child.stdin.end()
      await ended
    },
  }
}
