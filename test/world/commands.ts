// Several commands of an operator in one process, each as `posthorn ... --json` would do it: most of what a command takes is its beginning. Standard input
// has them as JSON, a list of lists of words; `{id}` stands for the id in the first answer. Standard output has the answers, with a line `--` between them.
import { text } from 'node:stream/consumers'
import { runCli } from '../../src/cli/cli.ts'
import { readSettings } from '../../src/config.ts'

const commands = JSON.parse(await text(process.stdin)) as readonly (readonly string[])[]
const write = process.stdout.write.bind(process.stdout)
let said = ''
let id = ''
process.stdout.write = (piece: string | Uint8Array): boolean => {
  said += String(piece)
  return write(piece)
}
for (const [at, words] of commands.entries()) {
  if (at === 1) id = (JSON.parse(said) as { readonly id: string }).id
  if (at > 0) write('--\n')
  const status = await runCli([...words.map((word) => word.replace('{id}', id)), '--json'], () =>
    readSettings(process.env),
  )
  if (status !== 0) process.exit(status)
}
