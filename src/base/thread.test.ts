// A thread for heavy work: whatever it does to itself, every order gets an answer or an error, and the next one is served.
import { afterEach, expect, test } from 'vitest'
import type { TestOrder } from './thread.test-child.ts'
import { Thread, ThreadTrouble } from './thread.ts'

const threads: Thread<TestOrder, string>[] = []
afterEach(async () => {
  for (const thread of threads.splice(0)) await thread.stop()
})
function made(waitingMax = 100) {
  const module = new URL('thread.test-child.ts', import.meta.url)
  const thread = new Thread<TestOrder, string>({ module, name: 'test', waitingMax, heapMegabytesMax: 64 })
  threads.push(thread)
  return (order: TestOrder, deadlineMs = 20_000, owner?: string) =>
    thread.ask(() => ({ order, transfer: [] }), deadlineMs, owner)
}
const trouble = (promise: Promise<string>) => expect(promise).rejects.toBeInstanceOf(ThreadTrouble)

test('orders are answered, each its own', async () => {
  const ask = made()
  const words = Array.from({ length: 20 }, (_, n) => `${n}`)
  expect(await Promise.all(words.map((say) => ask({ say })))).toEqual(words)
})

test('a fault is told to the one whose it is', async () => {
  const ask = made()
  const [before, failed, behind] = await Promise.allSettled([ask({ say: 'a' }), ask({ fail: 'no' }), ask({ say: 'b' })])
  expect([before, behind]).toMatchObject([{ value: 'a' }, { value: 'b' }])
  expect(failed).toMatchObject({ status: 'rejected', reason: { message: expect.stringContaining('no') } })
})

test('one that never comes back is ended at its deadline, and those behind it are served', async () => {
  const ask = made()
  const late = ask({ hang: true }, 50)
  const behind = ask({ say: 'still here' })
  await trouble(late)
  expect(await behind).toBe('still here')
})

test('one that dies is replaced', async () => {
  const ask = made()
  const dead = ask({ exit: true })
  const behind = ask({ say: 'still here' })
  await trouble(dead)
  expect(await behind).toBe('still here')
})

test('who waits too long, or comes to too long a queue, is told so at once', async () => {
  const ask = made(1)
  const busy = ask({ hang: true }, 200)
  const waits = ask({ say: 'late' }, 10)
  await trouble(ask({ say: 'too many' }))
  await trouble(waits)
  await trouble(busy)
})

test('an owner with much to do delays another one by one order, and leaves room in the line', async () => {
  const ask = made(6)
  const answered: string[] = []
  const asked = ['a0', 'a1', 'a2', 'a3', 'b1'].map((say) =>
    ask({ say }, 20_000, say.charAt(0)).then((said) => answered.push(said)),
  )
  await trouble(ask({ say: 'a4' }, 20_000, 'a'))
  await Promise.all(asked)
  expect(answered).toEqual(['a0', 'a1', 'b1', 'a2', 'a3'])
})

test('a stop leaves nobody waiting', async () => {
  const ask = made()
  const asked = [ask({ hang: true }), ask({ say: 'x' })]
  const told = Promise.all(asked.map(trouble))
  await threads[0]?.stop()
  await told
  await trouble(ask({ say: 'afterwards' }))
})
