// The client's types are written by hand, to be read; this holds them to the contract that the server validates with.
import { expectTypeOf, test } from 'vitest'
import type * as contract from '../../src/contract/message.ts'
import type { WebhookEvent as ServedEvent } from '../../src/contract/webhook-event.ts'
import type { WebhookEventType as ServedType } from '../../src/contract/words.ts'
import type * as client from '../src/index.ts'

test('the types of the client are those of the contract', () => {
  expectTypeOf<contract.Message>().toExtend<client.Message>()
  expectTypeOf<client.Message>().toExtend<contract.Message>()
  expectTypeOf<contract.SendMessageResponse>().toExtend<client.SendMessageResponse>()
  expectTypeOf<contract.MessageDeliveryStatus>().toExtend<client.MessageDeliveryStatus>()
  expectTypeOf<client.MessageDeliveryStatus>().toExtend<contract.MessageDeliveryStatus>()
  expectTypeOf<contract.Attachment>().toExtend<client.Attachment>()
  expectTypeOf<Omit<client.MessageToSend, 'attachments' | 'expiresAt'>>().toExtend<
    Omit<contract.SendMessageRequest, 'attachments' | 'expiresAt'>
  >()
  expectTypeOf<keyof client.MessageToSend>().toEqualTypeOf<keyof contract.SendMessageRequest>()
  expectTypeOf<client.WebhookEventType>().toEqualTypeOf<ServedType>()
  expectTypeOf<keyof client.MessageEventData | keyof client.TestEventData>().toEqualTypeOf<
    Exclude<keyof ServedEvent['data'], number>
  >()
})
