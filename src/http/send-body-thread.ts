// The thread that reads large bodies; send-body.ts says why.
import { serveThread } from '../base/thread.ts'
import { isRefusal } from '../domain/refusal.ts'
import { readLargeSendBody } from './send-body.ts'
import type { BodyAnswer, BodyOrder } from './send-body.ts'

serveThread(({ bytes, hashed, now }: BodyOrder): { answer: BodyAnswer; transfer: ArrayBuffer[] } => {
  const whole = bytes.buffer as ArrayBuffer
  const answer = readLargeSendBody(Buffer.from(whole, bytes.byteOffset, bytes.byteLength), hashed, now)
  whole.transfer(0) // its memory is free now, and not when the collector gets to it
  if (isRefusal(answer)) return { answer, transfer: [] }
  // Small files may lie together in one buffer; each gets its own, so that it can be handed over.
  const attachments = answer.message.attachments.map((attachment) =>
    attachment.bytes.byteLength === attachment.bytes.buffer.byteLength
      ? attachment
      : { ...attachment, bytes: Buffer.from(new Uint8Array(attachment.bytes).buffer) },
  )
  const transfer = attachments.map(({ bytes }) => bytes.buffer as ArrayBuffer)
  return { answer: { ...answer, message: { ...answer.message, attachments } }, transfer }
})
