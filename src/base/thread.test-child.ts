// A thread for the tests of threads: says what it is told, breaks, or never comes back.
import { getPriority } from 'node:os'
import { serveThread } from './thread.ts'

export type TestOrder =
  | { readonly say: string }
  | { readonly fail: string }
  | { readonly fill: true }
  | { readonly hang: true }
  | { readonly exit: true }
  | { readonly priority: true }
  | { readonly tell: Int32Array<SharedArrayBuffer> }

serveThread((order: TestOrder) => {
  if ('hang' in order) for (;;);
  if ('exit' in order) process.exit(1)
  if ('priority' in order) return { answer: `${getPriority()}`, transfer: [] }
  if ('tell' in order) {
    // Behind the answer.
    setImmediate(() => {
      Atomics.store(order.tell, 0, 1)
      Atomics.notify(order.tell, 0)
    })
    return { answer: 'told', transfer: [] }
  }
  if ('fill' in order) throw new RangeError('Array buffer allocation failed')
  if ('fail' in order) throw new Error(order.fail)
  return { answer: order.say, transfer: [] }
})
