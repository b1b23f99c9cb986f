// The parent's end of the delivery process: starts it, stops it, asks for its numbers, and tells when it died.
import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { nurseryMebibytes } from './base/memory.ts'
import { repeating } from './base/repeating.ts'
import { Trouble } from './base/trouble.ts'
import { limits } from './config.ts'
import type { FromChild, ToChild } from './delivery-process.ts'
import type { RunningRoles } from './node.ts'
import type { DeliveryState } from './roles/role.ts'
import type { Connection } from './store/connection.ts'

const metricsMs = 3_000
/** How often it is asked whether it is there, and how many times in a row it may say nothing. Counted, so that a machine that slept is no reason to end it. */
const patience = { everyMs: 10_000, missesMax: 12 }

/** Of its state: whether it does what it is told to within a moment; a process that was stopped, or turns in a circle, lives and does not. */
export interface DeliveryChild extends RunningRoles {
  /** Its part of the Prometheus text; empty when it does not answer. */
  metrics(): Promise<string>
}

/**
 * Resolves when it accepts work. `died` is called when it ends without having been asked to, also because it hung and was ended. Where `giveUp`
 * fires first, it is asked to end, and the reason is thrown when it has.
 */
export async function startDeliveryChild(
  connection: Connection,
  died: (error: Error) => void,
  giveUp: AbortSignal,
  { everyMs, missesMax } = patience,
): Promise<DeliveryChild> {
  const child = fork(fileURLToPath(new URL('./delivery-process.ts', import.meta.url)), [], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    // Short-lived objects die young in a larger nursery instead of being copied by helper threads that the signatures need (64 instead of 32 MB:
    // 1.08 x mail in and out on two cores, and 50 MB more at full load). With 1 GB it would be a tenth of all there is.
    // No debugger for whoever is logged in on this machine, and no warning that is for developers, as in bin/posthorn.
    execArgv: [
      `--max-semi-space-size=${nurseryMebibytes(64)}`,
      '--disable-sigusr1',
      '--disable-warning=DeprecationWarning',
    ],
  })
  let stopping = false
  let hung = ''
  const exited = new Promise<[number | null, string | null]>((resolve) => {
    child.once('exit', (code, signal) => resolve([code, signal]))
    // Where it could not even be started there is no exit.
    child.on('error', (error) => {
      if (child.pid === undefined) resolve([null, error.message])
    })
  })
  void exited.then(([code, signal]) => {
    if (!stopping) died(new Error(`the delivery process ended (${signal ?? `status ${code}`})${hung}`))
  })
  let asked = false
  let answer: Promise<DeliveryState> | undefined
  const deliveryState = (): Promise<DeliveryState> => {
    if (!child.connected) return Promise.resolve({ answers: false })
    // One question lies in the channel of a child that hangs, however often somebody wants to know.
    if (!asked) {
      asked = true
      tell(child, { say: 'answer' })
      void heard(child, ['here']).then(() => (asked = false))
    }
    answer ??= heard(child, ['here'], limits.readyMs).then((here) => {
      answer = undefined
      return here?.say === 'here' ? { answers: true, ownStop: here.ownStop } : { answers: false }
    })
    return answer
  }
  let misses = 0
  const look = async (): Promise<void> => {
    misses = (await deliveryState()).answers ? 0 : misses + 1
    if (misses !== missesMax || stopping) return // once: its exit may take longer than the next question
    hung = `: it was asked ${misses} times and did not answer`
    child.kill('SIGKILL')
  }
  const looks = repeating(
    () => everyMs,
    look,
    () => undefined, // it does not fail
  )
  const stop = async (databaseMs: number = limits.stopMs): Promise<void> => {
    stopping = true
    void looks.stop()
    if (child.connected) tell(child, { say: 'stop', databaseMs })
    // It ends by itself: replies that its journal does not have yet would be lost here.
    const impatience = setTimeout(() => child.kill('SIGKILL'), limits.stopMs + limits.smtpStopMs + 5_000)
    await exited
    clearTimeout(impatience)
  }
  const givenUp = new Promise<undefined>((resolve) => giveUp.addEventListener('abort', () => resolve(undefined)))
  tell(child, { say: 'start', connection })
  const first = await Promise.race([heard(child, ['ready', 'failed']), exited.then(() => undefined), givenUp])
  if (first?.say !== 'ready') {
    await stop()
    giveUp.throwIfAborted()
    if (first?.say === 'failed') throw first.plain ? new Trouble(first.why) : new Error(first.why)
    throw new Error('the delivery process ended at its start')
  }
  looks.start()
  return {
    stop,
    deliveryState,
    metrics: async () => {
      if (!child.connected) return ''
      tell(child, { say: 'metrics' })
      const said = await heard(child, ['metrics'], metricsMs)
      return said?.say === 'metrics' ? said.text : ''
    },
  }
}

function tell(child: ChildProcess, message: ToChild): void {
  child.send(message, () => undefined) // that it is gone, its exit tells
}

/** The next message of one of these kinds; undefined when it does not come within the time. */
function heard(
  child: ChildProcess,
  kinds: readonly FromChild['say'][],
  withinMs?: number,
): Promise<FromChild | undefined> {
  return new Promise((resolve) => {
    const end = (message?: FromChild) => {
      child.off('message', hear)
      clearTimeout(timer)
      resolve(message)
    }
    const hear = (message: FromChild) => {
      if (kinds.includes(message.say)) end(message)
    }
    const timer = withinMs === undefined ? undefined : setTimeout(end, withinMs).unref()
    child.on('message', hear)
  })
}
