import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { freshDatabase } from '../../test/world/postgres.ts'
import { afterPoll } from '../base/after-poll.ts'
import { limits } from '../config.ts'
import { openDatabase, sql } from './database.ts'

/**
 * A wire that goes on while this process stands still. Told to hold, it keeps what comes back over the lines that there are; told to let go, it passes it on a
 * moment later. It says its port, and when a line that came later has ended.
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
    near.pipe(far)
    far.on('data', (bytes) => line.isHeld ? line.kept.push(bytes) : near.write(bytes))
  })
  let isLate = false
  parentPort.on('message', (word) => {
    if (word === 'hold') { isLate = true; for (const line of lines) line.isHeld = true }
    else setTimeout(() => { for (const { near, kept } of lines) for (const bytes of kept.splice(0)) near.write(bytes) }, 200)
  })
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
`

test('an answer that came while this process stood still is heard, and its line no silent one', async () => {
  const fresh = await freshDatabase()
  const { host, port } = fresh.connection
  const worker = new Worker(wire, { eval: true, workerData: { path: `${host}/.s.PGSQL.${port}` } })
  const [behind] = (await once(worker, 'message')) as [number]
  const db = openDatabase(
    { ...fresh.connection, host: '127.0.0.1', port: behind },
    { name: 'test', connectionsMax: 1, answerMs: 30_000 },
  )
  try {
    const asked = sql('test-asked', 'select 1 one')
    await db.rows(asked)
    worker.postMessage('hold')
    const answer = db.rows(asked)
    // The server has been asked about it, and says that it is not at work.
    expect(await once(worker, 'message')).toEqual(['ended'])
    await afterPoll() // whoever asked has heard it, too
    worker.postMessage('let go')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * limits.silentLineAnswerMs)
    expect(await answer).toEqual([{ one: 1 }])
  } finally {
    await db.close()
    await worker.terminate()
    await fresh.drop()
  }
})
