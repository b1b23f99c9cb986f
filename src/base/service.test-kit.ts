// What every service must survive, tried on a real one: double and out-of-order calls, and a second life.
import { expect, test } from 'vitest'
import type { Service } from './service.ts'

/** How long one may take that runs, however busy the machine is; and one that has been stopped, and must not: longer than any of them rests between two looks. */
const [patienceMs, doubtMs] = [30_000, 4_000]

/** Declares the stress tests for a service. `make` gives a fresh one; `works` throws when it does not do its job within that time. */
export function survivesItsLife(
  name: string,
  make: () => Promise<Service>,
  works: (service: Service, withinMs: number) => Promise<void>,
) {
  test(`${name}: stop before start does nothing, and it starts all the same`, async () => {
    const service = await make()
    await service.stop()
    await service.start()
    await works(service, patienceMs)
    await service.stop()
  })

  test(`${name}: started twice and stopped twice is started and stopped once`, async () => {
    const service = await make()
    await Promise.all([service.start(), service.start()])
    await service.start()
    await works(service, patienceMs)
    await Promise.all([service.stop(), service.stop()])
    await service.stop()
    await expect(works(service, doubtMs)).rejects.toThrow()
  })

  test(`${name}: a stop during the start leaves it stopped`, async () => {
    const service = await make()
    const starting = service.start()
    const stopping = service.stop()
    await Promise.all([starting, stopping])
    await expect(works(service, doubtMs)).rejects.toThrow()
  })

  test(`${name}: it can be started again after a stop`, async () => {
    const service = await make()
    for (let life = 0; life < 3; life++) {
      await service.start()
      await works(service, patienceMs)
      await service.stop()
    }
  })
}
