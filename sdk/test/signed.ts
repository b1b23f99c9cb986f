// Signs an event as the service does, by an implementation of its own (node:crypto), to hold receivers against.
import { createHmac } from 'node:crypto'

export function signed(
  event: object,
  secret: string,
  atSeconds = Math.floor(Date.now() / 1000),
): { headers: Record<string, string>; body: string } {
  const body = JSON.stringify(event)
  const digest = createHmac('sha256', secret).update(`${atSeconds}.${body}`).digest('hex')
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'webhook-id': (event as { id: string }).id,
      'webhook-timestamp': String(atSeconds),
      'webhook-signature': `v1=${digest}`,
    },
  }
}
