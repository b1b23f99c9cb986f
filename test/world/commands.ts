// Several commands of an operator in one process, each as `posthorn ... --json` would do it: most of what a command takes is its beginning. A line of
// standard input has some as JSON, a list of lists of words; `{id}` stands for the id in the first answer. For each line a line of standard output has
// the list of their answers. It ends with the first one that fails, as that one ends, and with its input.
import { createInterface } from 'node:readline'
import { runCli } from '../../src/cli/cli.ts'
import { readSettings } from '../../src/config.ts'

const write = process.stdout.write.bind(process.stdout)
let said = ''
process.stdout.write = (piece: string | Uint8Array): boolean => {
  said += String(piece)
  return true
}
for await (const line of createInterface({ input: process.stdin })) {
  const answers: { readonly id?: string }[] = []
  for (const words of JSON.parse(line) as readonly (readonly string[])[]) {
    said = ''
    const args = words.map((word) => word.replace('{id}', answers[0]?.id ?? ''))
    const status = await runCli([...args, '--json'], () => readSettings(process.env))
    if (status !== 0) process.exit(status)
    answers.push(JSON.parse(said) as object)
  }
  write(`${JSON.stringify(answers)}\n`)
}
