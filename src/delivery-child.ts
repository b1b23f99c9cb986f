// The parent's end of the delivery process: starts it, stops it, asks for its numbers, and tells when it died.
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { limits } from './config.ts'
import type { FromChild, ToChild } from './delivery-process.ts'
import type { RunningRoles } from './node.ts'
import type { Connection } from './store/database.ts'

export interface DeliveryChild extends RunningRoles {
  /** Its part of the Prometheus text; empty when it does not answer. */
  metrics(): Promise<string>
}

/** Resolves when it accepts work. `died` is called when it ends without having been asked to. */
export async function startDeliveryChild(connection: Connection, died: (error: Error) => void): Promise<DeliveryChild> {
  const child = fork(fileURLToPath(new URL('./delivery-process.ts', import.meta.url)), [], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  let stopping = false
  const exited = once(child, 'exit') as Promise<[number | null, string | null]>
  void exited.then(([code, signal]) => {
    if (!stopping) died(new Error(`the delivery process ended (${signal ?? `status ${code}`})`))
  })
  tell(child, { say: 'start', connection })
  const first = await Promise.race([heard(child, 'ready', 'failed'), exited.then(() => undefined)])
  if (first?.say !== 'ready') {
    stopping = true
    throw new Error(first?.say === 'failed' ? first.why : 'the delivery process ended at its start')
  }
  return {
    stop: async () => {
      stopping = true
      if (child.connected) tell(child, { say: 'stop' })
      const impatience = setTimeout(() => child.kill('SIGKILL'), limits.shutdownMs + limits.smtpStopMs + 5_000)
      await exited
      clearTimeout(impatience)
    },
    metrics: async () => {
      if (!child.connected) return ''
      const answer = heard(child, 'metrics')
      tell(child, { say: 'metrics' })
      const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), 1_000).unref())
      const said = await Promise.race([answer, late])
      return said?.say === 'metrics' ? said.text : ''
    },
  }
}

function tell(child: ChildProcess, message: ToChild): void {
  child.send(message, () => undefined) // that it is gone, its exit tells
}

/** The next message of one of these kinds. */
function heard(child: ChildProcess, ...kinds: readonly FromChild['say'][]): Promise<FromChild> {
  return new Promise((resolve) => {
    const hear = (message: FromChild) => {
      if (!kinds.includes(message.say)) return
      child.off('message', hear)
      resolve(message)
    }
    child.on('message', hear)
  })
}
