// What is remembered of those who come in: revoked is revoked, also where a question or its answer is late (decisions H).
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import { RememberedAccess } from './remembered-access.ts'

let now = 0
beforeEach(() => {
  now = 1_000_000
  vi.spyOn(performance, 'now').mockImplementation(() => now)
})
afterEach(() => vi.restoreAllMocks())

/** A database whose answers come when the test says so. */
function questions() {
  const open: ((answer: string | undefined) => void)[] = []
  const access = new RememberedAccess<string>(3, (value) => (value === 'short' ? 100 : Infinity))
  return {
    access,
    get: (name = 'key') => access.get(name, () => new Promise((resolve) => void open.push(resolve))),
    /** How many were asked of the database so far. */
    asked: () => open.length,
    answer: async (at: number, answer: string | undefined) => {
      open[at]?.(answer)
      await Promise.resolve()
      await Promise.resolve()
    },
  }
}

test('who asks at the same time shares one question, and who asks within the time gets its answer', async () => {
  const { get, asked, answer } = questions()
  const [one, other] = [get(), get()]
  await answer(0, 'yes')
  expect([await one, await other, await get(), asked()]).toEqual(['yes', 'yes', 'yes', 1])
})

test('a question from before a change is shared with nobody who asks behind it, and its answer is not remembered', async () => {
  const { access, get, asked, answer } = questions()
  const early = get()
  access.forget()
  const late = get()
  expect(asked()).toBe(2)
  await answer(0, 'still good')
  expect(await early).toBe('still good')
  expect(get()).toBeInstanceOf(Promise) // it waits for the second one
  expect(asked()).toBe(2)
  await answer(1, undefined)
  expect(await late).toBe(undefined)
  void get()
  expect(asked()).toBe(3)
})

test('what was remembered before a change is forgotten with it', async () => {
  const { access, get, asked, answer } = questions()
  void get()
  await answer(0, 'yes')
  access.forget()
  void get()
  expect(asked()).toBe(2)
})

test('an answer counts from the start of its question, and no longer than what it tells of', async () => {
  const { get, asked, answer } = questions()
  void get()
  now += limits.principalCacheMs - 1
  await answer(0, 'yes')
  expect(get()).toBe('yes')
  now += 1
  const again = get()
  expect(asked()).toBe(2)
  await answer(1, 'short')
  await again
  now += 99
  expect(get()).toBe('short')
  now += 1
  void get()
  expect(asked()).toBe(3)
})

test('a question that hangs is not shared for longer than an answer would count, nor does its late answer count', async () => {
  const { get, asked, answer } = questions()
  void get()
  now += limits.principalCacheMs
  void get()
  expect(asked()).toBe(2)
  await answer(0, 'of long ago')
  void get()
  expect(asked()).toBe(2) // shared with the second, which has no answer yet
})

test('only what exists is remembered, and only so much of it', async () => {
  const { get, asked, answer } = questions()
  void get('nobody')
  await answer(0, undefined)
  for (const [at, name] of ['a', 'b', 'c', 'd'].entries()) {
    void get(name)
    await answer(at + 1, name)
  }
  expect([get('b'), get('c'), get('d'), asked()]).toEqual(['b', 'c', 'd', 5])
  void get('a')
  void get('nobody')
  expect(asked()).toBe(7)
})
