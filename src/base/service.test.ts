import { describe, expect, test } from 'vitest'
import { lifecycle, startAll, stopAll } from './service.ts'
import type { Service } from './service.ts'
import { survivesItsLife } from './service.test-kit.ts'

describe('lifecycle', () => {
  // The smallest honest service: it works exactly between its begin and its end, and each is a turn of the event loop long.
  const lives = new WeakMap<Service, { on: boolean; begins: number; ends: number }>()
  const make = async (): Promise<Service> => {
    const life = { on: false, begins: 0, ends: 0 }
    const service = lifecycle(
      'lamp',
      async () => {
        life.begins++
        await turn()
        expect(life.on, 'begin runs only while it is off').toBe(false)
        life.on = true
      },
      async () => {
        life.ends++
        await turn()
        expect(life.on, 'end runs only while it is on').toBe(true)
        life.on = false
      },
    )
    lives.set(service, life)
    return service
  }
  survivesItsLife('a lamp', make, async (service) => {
    if (lives.get(service)?.on !== true) throw new Error('dark')
  })

  test('every begin has one end, whatever the order of the calls', async () => {
    const service = await make()
    const calls = ['start', 'stop', 'stop', 'start', 'start', 'stop', 'start', 'start', 'stop', 'stop'] as const
    await Promise.all(calls.map((call) => service[call]()))
    await service.stop()
    const life = lives.get(service)
    expect(life?.begins).toBeGreaterThan(0)
    expect(life?.ends).toBe(life?.begins)
  })

  test('a start that fails tells its caller, and may be tried again', async () => {
    let tries = 0
    const service = lifecycle(
      'moody',
      async () => {
        tries++
        if (tries === 1) throw new Error('the port is taken')
      },
      async () => undefined,
    )
    await expect(service.start()).rejects.toThrow('the port is taken')
    await service.stop()
    await service.start()
    expect(tries).toBe(2)
  })

  test('a stop during a start that fails does not end what never began', async () => {
    let ended = 0
    const service = lifecycle(
      'doomed',
      async () => {
        await turn()
        throw new Error('no')
      },
      async () => {
        ended++
      },
    )
    const starting = service.start()
    const stopping = service.stop()
    await expect(starting).rejects.toThrow('no')
    await stopping
    expect(ended).toBe(0)
  })

  test('a start that fails says nothing of the one that was asked for behind it, which a stop ends', async () => {
    const said: string[] = []
    const service = lifecycle(
      'second try',
      async () => {
        await turn()
        said.push('begin')
        if (said.length === 1) throw new Error('the port is taken')
      },
      async () => void said.push('end'),
    )
    const first = service.start()
    const stopped = service.stop()
    const second = service.start()
    await expect(first).rejects.toThrow('the port is taken')
    await stopped
    await service.stop() // the second is under way
    await second
    expect(said).toEqual(['begin', 'begin', 'end'])
  })
})

describe('many services', () => {
  const diary = (failing: Record<string, 'start' | 'stop'> = {}) => {
    const lines: string[] = []
    const act = (what: 'start' | 'stop', name: string) => async () => {
      lines.push(`${what} ${name}`)
      if (failing[name] === what) throw new Error(`${what} ${name} failed`)
    }
    const services = ['a', 'b', 'c'].map((name) => ({ name, start: act('start', name), stop: act('stop', name) }))
    return { lines, services }
  }

  test('they start in order and stop in reverse', async () => {
    const { lines, services } = diary()
    await startAll(services)
    await stopAll(services)
    expect(lines).toEqual(['start a', 'start b', 'start c', 'stop c', 'stop b', 'stop a'])
  })

  test('when one does not start, those before it are stopped and its error is told', async () => {
    const { lines, services } = diary({ b: 'start' })
    await expect(startAll(services)).rejects.toThrow('start b failed')
    expect(lines).toEqual(['start a', 'start b', 'stop a'])
  })

  test('one that does not stop keeps no other from stopping', async () => {
    const { lines, services } = diary({ c: 'stop', a: 'stop' })
    await expect(stopAll(services)).rejects.toThrow('stop c failed')
    expect(lines).toEqual(['stop c', 'stop b', 'stop a'])
  })
})

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
