// Starts the two peers of the REST rows, each a process of its own.
import { fileURLToPath } from 'node:url'
import type { Sender, Target } from '../load.ts'
import { freePorts } from '../../src/base/free-ports.ts'
import { folderIn, start } from '../processes.ts'
import type { Running } from '../processes.ts'

export interface WebPeer extends Target {
  readonly stop: () => Promise<void>
}

/** Fastify without a database, and Fastify with one transaction per request. */
export const startInMemory = (temporary: string): Promise<WebPeer> => startPeer('in-memory', temporary)
export const startNaive = (temporary: string): Promise<WebPeer> => startPeer('naive', temporary)

async function startPeer(name: 'in-memory' | 'naive', temporary: string): Promise<WebPeer> {
  const [port = 0] = await freePorts(1)
  const folder = folderIn(temporary, name)
  const running: Running = start({
    name,
    command: process.execPath,
    args: [fileURLToPath(new URL(`${name}.ts`, import.meta.url))],
    env: { PORT: `${port}`, DATA_DIR: folderIn(folder, 'data'), NODE_ENV: 'production' },
    folder,
    stopMs: 30_000, // PostgreSQL's last checkpoint
  })
  const [, senders = '[]'] = await running.says(/^ready (.*)$/m, 60_000)
  return { name, port, senders: JSON.parse(senders) as Sender[], pids: [running.pid], stop: running.stop }
}
