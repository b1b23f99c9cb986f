// Words for whoever waits at a terminal for what takes minutes: a line on standard error each few seconds. Elsewhere, in a log or in the mail of cron, nobody
// wants them.
import { limits } from '../config.ts'

interface Terminal {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** What it gives is called as often as anything has gone on; the words are made only when they are said. */
export function progress(
  { json }: { readonly json: boolean },
  terminal: Terminal = process.stderr,
  now: () => number = () => performance.now(),
): (words: () => string) => void {
  if (json || terminal.isTTY !== true) return () => undefined
  let told = now()
  return (words) => {
    if (now() - told < limits.progressMs) return
    told = now()
    terminal.write(`posthorn: ${words()}\n`)
  }
}
