// The receiver of both delivery rows: Postfix's smtp-sink, which takes every mail and keeps none.
import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { freePorts } from '../../src/base/free-ports.ts'
import { findProgram, start } from '../processes.ts'
import type { Running } from '../processes.ts'

export interface Sink extends Running {
  readonly port: number
}

export async function startSink(folder: string): Promise<Sink> {
  const command = findProgram('smtp-sink')
  if (command === undefined) throw new Error('smtp-sink is not installed (bench/setup.sh)')
  const [port = 0] = await freePorts(1)
  // It gives root up for the user it is told; as an ordinary user it stays who it is.
  const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : []
  const sink = start({
    name: 'smtp-sink',
    command,
    args: [...user, `127.0.0.1:${port}`, '1000'],
    folder,
    stopMs: 2_000,
  })
  await listens(port, 5_000)
  return { ...sink, port }
}

/** Waits until something takes connections there. */
export async function listens(port: number, ms: number): Promise<void> {
  const deadline = Date.now() + ms
  for (;;) {
    const reached = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1')
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
      socket.once('connect', () => socket.destroy())
    })
    if (reached) return
    if (Date.now() > deadline) throw new Error(`nothing listens on 127.0.0.1:${port} after ${ms / 1000} s`)
    await setTimeout(20)
  }
}
