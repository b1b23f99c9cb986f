// The thread that looks into files; examine.ts says for what.
import { release } from '../base/release.ts'
import { serveThread } from '../base/thread.ts'
import { examine, type ExamineOrder, type Findings } from './examine.ts'

serveThread((order: ExamineOrder) => {
  const answer: Findings = examine(order)
  for (const { bytes } of order.files) release(bytes)
  const transfer = answer.kind === 'clean' ? answer.leaves.map(({ bytes }) => bytes.buffer as ArrayBuffer) : []
  return { answer, transfer }
})
