// A receiver on the other side of the world: its machine answers a connection only after longer than Node gives to one address of several
// (https://github.com/nodejs/node/issues/54359).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as passed } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { withUs } from '../../test/world/with-us.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { makePoster } from './post.ts'
import type { Targets } from './public-address.ts'

const receiver = `
  const server = require('node:http').createServer((request, response) => request.resume().on('end', () => response.end('ok')))
  server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => console.log(server.address().port))`

/** While it stands still the system takes as many connections for it as its backlog says, and answers none more. */
async function standingStill(): Promise<{ port: number; goOn: () => void }> {
  const child = spawn(...withUs(process.execPath, ['--eval', receiver]), { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const [said] = (await once(child.stdout, 'data')) as [Buffer]
  const port = Number(said.toString())
  child.kill('SIGSTOP')
  for (let isTaken = true; isTaken;) {
    const filler = connect(port, '127.0.0.1').on('error', () => undefined)
    onTestFinished(() => void filler.destroy())
    isTaken = await Promise.race([once(filler, 'connect').then(() => true), passed(200, false)])
  }
  return { port, goOn: () => void child.kill('SIGCONT') }
}

test('a far receiver with addresses of both families is reached by the one that this machine has a way to, and not given up at the first quarter of a second', async () => {
  const { port, goOn } = await standingStill()
  const targets = {
    find: () => Promise.resolve({ addresses: ['127.0.0.1', '2001:db8::1'] }),
    isAllowed: () => true,
    namesAnswer: () => Promise.resolve(true),
    anywhere: true,
  } as unknown as Targets
  const poster = makePoster({ targets })
  onTestFinished(() => poster.close())
  const workspaceId = '0199f1c2-0000-7000-8000-00000000000a' as WorkspaceId
  const url = new URL(`http://far.example:${port}/`)
  const facts = poster.post({ workspaceId, url, headers: [], body: Buffer.from('{}'), now: Date.now })
  await passed(400)
  goOn()
  expect(await facts).toMatchObject({ status: 200 })
})
