// What one try at posting an event came to: in a word, and for somebody who sees their own server answer as it should.
import type { WebhookEventDetail, WebhookTrouble } from '../shapes.ts'

type Try = Pick<WebhookEventDetail['attempts'][number], 'status' | 'trouble' | 'round' | 'attempt'>

const troubles = {
  blocked_address: 'The name leads to an address that is not public, or to one of Posthorn’s own machine.',
  dns_failure: 'The name of the host could not be found in the DNS.',
  connect_failed: 'No connection could be made: nobody listens there, or something on the way does not let it through.',
  tls_failed:
    'No encrypted connection could be made: the certificate has expired, is for another name, or comes without the one that signed it; or nobody speaks TLS there.',
  timeout: 'The answer was not at its end within 15 seconds. Answer first, and do the work afterwards.',
  closed: 'The connection was closed before the answer was at its end.',
  malformed: 'What came back is no answer in HTTP/1.1.',
  too_large: 'The answer was longer than 1 MB. Answer with a short body, or none.',
  shutdown: 'Posthorn was being stopped; whether the event arrived is not known.',
  worker_lost: 'The process that was posting it ended; whether the event arrived is not known.',
} as const satisfies Record<WebhookTrouble, string>

/** A status says nothing where its answer had no end. */
export const outcomeOf = ({ status, trouble }: Try): string | undefined =>
  trouble?.replaceAll('_', ' ') ?? (status === undefined ? undefined : String(status))

/** Undefined where the answer says it itself. */
export function meaningOf({ status = 0, trouble }: Try): string | undefined {
  if (trouble !== undefined) return (troubles as Readonly<Record<string, string>>)[trouble]
  const isRedirect = status >= 300 && status < 400
  return isRedirect ? 'Redirects are not followed: the endpoint needs the address that this one leads to.' : undefined
}

/** Which try it was, behind a first word. */
export const numberOf = ({ round, attempt }: Try): string =>
  `${round > 1 ? ', posted again' : ''}${attempt > 1 ? `, try ${attempt}` : ''}`
