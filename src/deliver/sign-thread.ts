// The thread that signs; signers.ts says why.
import { serveThread } from '../base/thread.ts'
import { signNow } from '../mail/dkim.ts'
import type { SignAnswer, SignOrder } from './signers.ts'

serveThread(({ keys, inputs }: SignOrder): { answer: SignAnswer; transfer: [] } => {
  const answer = inputs.map(({ key, input }) => {
    const of = keys[key]
    try {
      if (of === undefined) throw new Error('an input without its key')
      return { signature: signNow(of, input) }
    } catch (error) {
      return { fault: error instanceof Error ? error.message : String(error) }
    }
  })
  return { answer, transfer: [] }
})
