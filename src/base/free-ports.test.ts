// Two programs that start at the same time never get the same port, though neither listens yet.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { freePorts } from './free-ports.ts'

// So many that two of 22,768 would meet all the time.
const many = 400

test('processes that ask at the same time get different ports, and each can be listened on', async () => {
  const module = fileURLToPath(new URL('./free-ports.ts', import.meta.url))
  const script = `import { freePorts } from ${JSON.stringify(module)}
    console.log(JSON.stringify(await freePorts(${many})))
    setInterval(() => undefined, 1_000)`
  // They live until all have answered: a process that ends gives its ports back.
  const others = Array.from({ length: 3 }, () => execFile(process.execPath, ['--input-type=module', '-e', script]))
  try {
    const said = await Promise.all([
      freePorts(many),
      ...others.map(async ({ stdout }) => JSON.parse(await firstLine(stdout)) as number[]),
    ])
    const ports = said.flat()
    expect(new Set(ports).size).toBe(4 * many)
    for (const port of ports.slice(-20)) {
      const server = createServer()
      await once(server.listen(port), 'listening')
      await once(server.close(), 'close')
    }
  } finally {
    for (const other of others) other.kill('SIGKILL')
  }
}, 60_000)

test('what is the same at every port, such as a want of files, is told at once and in one sentence', async () => {
  const module = fileURLToPath(new URL('./free-ports.ts', import.meta.url))
  const script = `import { openSync } from 'node:fs'
    import { freePorts } from ${JSON.stringify(module)}
    await freePorts(1)
    try { for (;;) openSync('/dev/null') } catch {}
    const error = await freePorts(1).catch((thrown) => thrown)
    console.log(error.name + ': ' + error.message)`
  const few = 'ulimit -n 64; exec "$0" --input-type=module -e "$1"'
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', few, process.execPath, script])
  expect(stdout).toMatch(/^Trouble: no free port could be looked for: .*EMFILE/)
})

async function firstLine(stream: AsyncIterable<unknown> | null): Promise<string> {
  let text = ''
  for await (const piece of stream ?? []) {
    text += String(piece)
    if (text.includes('\n')) return text
  }
  throw new Error('it ended without an answer')
}

test('a process that only asked can end', async () => {
  const module = fileURLToPath(new URL('./free-ports.ts', import.meta.url))
  const script = `import { freePorts } from ${JSON.stringify(module)}\nconsole.log((await freePorts(3)).length)`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    timeout: 30_000,
  })
  expect(stdout).toBe('3\n')
})
