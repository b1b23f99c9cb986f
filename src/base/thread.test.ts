// A thread for heavy work: whatever it does to itself, every order gets an answer or an error, and the next one is served.
import { execFile } from 'node:child_process'
import { getPriority } from 'node:os'
import { promisify } from 'node:util'
import { afterEach, expect, test } from 'vitest'
import type { TestOrder } from './thread.test-child.ts'
import { Thread, ThreadTrouble } from './thread.ts'

const threads: Thread<TestOrder, string>[] = []
afterEach(async () => {
  for (const thread of threads.splice(0)) await thread.stop()
})
function made(waitingMax = 100, module = new URL('thread.test-child.ts', import.meta.url)) {
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

test('one that cannot be started is trouble of this machine, and no word about the order: each is told so', async () => {
  const ask = made(100, new URL('nothing:')) // as where the system has no thread more, the constructor throws
  await Promise.all([trouble(ask({ say: 'one' })), trouble(ask({ say: 'another' }))])
})

test('where there is no memory for an order the order is not to blame, and the next one is served', async () => {
  const ask = made()
  const short = ask({ fill: true })
  const behind = ask({ say: 'still here' })
  await trouble(short)
  expect(await behind).toBe('still here')
})

test('what was answered while this process stood still has come in time', async () => {
  const ask = made()
  await ask({ say: 'it has started' })
  const tell = new Int32Array(new SharedArrayBuffer(4))
  await new Promise(setImmediate) // behind which timers come first
  const answer = ask({ tell }, 1)
  for (let turns = 0; turns < 5; turns++) await Promise.resolve() // it is handed over, and no timer has had its turn
  Atomics.wait(tell, 0, 0)
  Atomics.wait(tell, 0, 1, 5)
  expect(await answer).toBe('told')
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

test.runIf(process.platform === 'linux')(
  'it stands behind its process, also where that was started behind others, by whomever',
  async () => {
    const program = `import { Thread } from '${new URL('thread.ts', import.meta.url).href}'
    const module = new URL('${new URL('thread.test-child.ts', import.meta.url).href}')
    const thread = new Thread({ module, name: 'test', waitingMax: 1, heapMegabytesMax: 64 })
    console.log(await thread.ask(() => ({ order: { priority: true }, transfer: [] }), 20_000))`
    const started = async (more: number) => {
      const args = ['-n', `${more}`, process.execPath, '-e', program]
      // It ends by itself: the thread does not keep it.
      return Number((await promisify(execFile)('nice', args, { timeout: 20_000 })).stdout)
    }
    const own = getPriority()
    const behind = (priority: number) => Math.min(priority, 19)
    expect(await started(0)).toBe(behind(own + 5))
    expect(await started(8)).toBe(behind(behind(own + 8) + 5))
    expect(await started(19)).toBe(19)
  },
)
