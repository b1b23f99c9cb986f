// The common shape of everything with a life: a server, a worker's loop, a pool. `start` resolves when the thing is ready,
// `stop` when it is quiet; both may be called twice, and in the wrong order. `lifecycle` gives that manner to any pair of
// functions, `service.test-kit.ts` tries it on every service.

export interface Service {
  readonly name: string
  start(): Promise<void>
  stop(): Promise<void>
}

/** `done`: when the start, or the stop, that is under way has ended. */
interface Life {
  readonly state: 'starting' | 'running' | 'stopping' | 'stopped'
  readonly done: Promise<void>
}

/**
 * A service out of what it does at its start and at its end. `begin` runs at most once at a time; `end` runs only after a
 * `begin` that succeeded; a stop during the start waits for the start first; a stopped service may be started again.
 */
export function lifecycle(name: string, begin: () => Promise<void>, end: () => Promise<void>): Service {
  let life: Life = { state: 'stopped', done: Promise.resolve() }
  /** How one ended says nothing of what was asked for behind it. */
  const turn = (from: Life, state: Life['state']): void => {
    if (life === from) life = { state, done: Promise.resolve() }
  }

  const start = async (): Promise<void> => {
    if (life.state === 'starting' || life.state === 'running') return life.done
    const before = life.state === 'stopping' ? life.done : Promise.resolve()
    const starting: Life = {
      state: 'starting',
      done: before.then(begin).then(
        () => turn(starting, 'running'),
        (error: unknown) => {
          turn(starting, 'stopped')
          throw error
        },
      ),
    }
    life = starting
    return starting.done
  }

  const stop = async (): Promise<void> => {
    if (life.state === 'stopped') return
    if (life.state === 'stopping') return life.done
    const stopping: Life = {
      state: 'stopping',
      done: life.done
        .then(end, () => undefined) // the start failed and has told its own caller: there is nothing to end
        .then(() => turn(stopping, 'stopped')),
    }
    life = stopping
    return stopping.done
  }

  return { name, start, stop }
}

/** Starts in order; when one fails, or the start is given up, stops the ones before it and throws the error. */
export async function startAll(services: readonly Service[], giveUp?: AbortSignal): Promise<void> {
  const started: Service[] = []
  try {
    for (const service of services) {
      giveUp?.throwIfAborted()
      await service.start()
      started.push(service)
    }
  } catch (error) {
    await stopAll(started)
    throw error
  }
}

/** Stops in reverse order, each even if another one's stop failed; throws the first failure at the end. */
export async function stopAll(services: readonly Service[]): Promise<void> {
  const failures: unknown[] = []
  for (const service of services.toReversed()) await service.stop().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw failures[0]
}
