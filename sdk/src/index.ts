// The Posthorn client: send, read the status, wait for the outcome, catch up on events, and verify webhooks. It has no dependencies and
// runs wherever `fetch` and Web Crypto do: Node 20 or newer, Deno, Bun, workers. API keys belong on servers, never in a browser.
export { Posthorn } from './client.ts'
export type { EventsOptions, PosthornOptions, RequestOptions, SendOptions, WaitOptions } from './client.ts'
export { PosthornApiError, PosthornConnectionError, PosthornError, PosthornWaitError } from './errors.ts'
export type { ErrorCode } from './errors.ts'
export type {
  Attachment,
  AttachmentInput,
  Bounce,
  DeliveryEvent,
  DeliveryStatus,
  EventPage,
  Message,
  MessageDeliveryStatus,
  MessageEventData,
  MessageEventType,
  MessageToSend,
  ProcessingStatus,
  SendMessageResponse,
  SmtpFacts,
  TestEventData,
  WebhookEvent,
  WebhookEventType,
} from './shapes.ts'
export { memorySeen, webhookHandler } from './handler.ts'
export type { Seen, WebhookHandlerOptions } from './handler.ts'
export { verifyWebhook, WebhookVerificationError } from './webhook.ts'
export type { HeaderSource, Secret, VerifyOptions, WebhookMistake } from './webhook.ts'
