import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { ClientBase } from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { freshDatabase } from '../../test/world/postgres.ts'
import { afterPoll } from '../base/after-poll.ts'
import { limits } from '../config.ts'
import { openDatabase, sql } from './database.ts'
import { watchSilence } from './silent-lines.ts'

/**
 * A wire that goes on while this process stands still. Told to hold, it keeps what comes back over the lines that there are, and told to hold alone, it takes
 * no other line then; told to let go, it passes it on a moment later. It says its port, and when a line that came later has ended.
 */
const wire = `
  const { connect, createServer } = require('node:net')
  const { parentPort, workerData: { path } } = require('node:worker_threads')
  const lines = new Set()
  const server = createServer((near) => {
    const far = connect(path)
    const line = { near, isHeld: false, kept: [], isLate }
    lines.add(line)
    near.on('error', () => undefined).on('close', () => { far.destroy(); lines.delete(line); if (line.isLate) parentPort.postMessage('ended') })
    far.on('error', () => undefined).on('close', () => near.destroy())
    if (isLate && isAlone) near.destroy()
    near.pipe(far)
    far.on('data', (bytes) => line.isHeld ? line.kept.push(bytes) : near.write(bytes))
  })
  let isLate = false
  let isAlone = false
  parentPort.on('message', (word) => {
    if (word !== 'let go') { isLate = true; isAlone = word === 'hold alone'; for (const line of lines) line.isHeld = true }
    else setTimeout(() => { for (const { near, kept } of lines) for (const bytes of kept.splice(0)) near.write(bytes) }, 200)
  })
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
`

interface Held {
  readonly worker: Worker
  /** Resolves when the server was asked over another line, or could not be. */
  readonly looked: () => Promise<void>
}

/** Asks over a line on which nothing comes back for now. */
async function asked(how: 'hold' | 'hold alone', meanwhile: (held: Held) => Promise<void> | void): Promise<object[]> {
  const fresh = await freshDatabase()
  const { host, port } = fresh.connection
  const worker = new Worker(wire, { eval: true, workerData: { path: `${host}/.s.PGSQL.${port}` } })
  const [behind] = (await once(worker, 'message')) as [number]
  const db = openDatabase(
    { ...fresh.connection, host: '127.0.0.1', port: behind },
    { name: 'test', connectionsMax: 1, answerMs: 30_000 },
  )
  try {
    const question = sql('test-asked', 'select 1 one')
    await db.rows(question)
    worker.postMessage(how)
    const answer = db.rows(question)
    const looked = async () => expect(await once(worker, 'message')).toEqual(['ended'])
    await meanwhile({ worker, looked })
    worker.postMessage('let go')
    return await answer
  } finally {
    await db.close()
    await worker.terminate()
    await fresh.drop()
  }
}

test('an answer that came while this process stood still is heard, and its line no silent one', async () => {
  const answer = await asked('hold', async ({ worker, looked }) => {
    // The server has been asked about it, and says that it is not at work.
    await looked()
    await afterPoll() // whoever asked has heard it, too
    worker.postMessage('let go')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * limits.silentLineAnswerMs)
  })
  expect(answer).toEqual([{ one: 1 }])
})

test('where nobody can ask the server about it, a silent line is waited for like any other', async () => {
  const answer = await asked('hold alone', async ({ looked }) => {
    await looked()
    await looked()
  })
  expect(answer).toEqual([{ one: 1 }])
})

test('a line that answers while others are asked about is asked about no more, and watched no longer', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const silent = { processID: 1, connection: { stream: { bytesRead: 0, destroy: () => undefined } } }
  const heard = watchSilence({ url: 'postgres://nobody@localhost:1/none' })(silent as unknown as ClientBase)
  vi.advanceTimersByTime(limits.silentLineMs)
  heard()
  await setImmediate()
  expect(vi.getTimerCount()).toBe(0)
})
