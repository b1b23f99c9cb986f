// The workspace's webhook endpoint, and the words that stand on every page where it matters that it gets nothing: it was disabled by itself, or
// nothing has got through for long.
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Webhook } from 'lucide-react'
import { ApiError, get } from '../api.ts'
import type { WebhookEndpoint } from '../shapes.ts'
import { Notice } from '../ui/notice.tsx'
import { Time, useNow } from '../ui/time.tsx'

/** Null where there is none. */
export function useEndpoint(enabled = true): UseQueryResult<WebhookEndpoint | null> {
  return useQuery({
    queryKey: ['webhook'],
    enabled,
    queryFn: async ({ signal }) => {
      try {
        return await get<WebhookEndpoint>('/api/v1/webhook', signal)
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null
        throw error
      }
    },
    refetchInterval: 60_000,
  })
}

export const disableReasons = {
  by_hand: 'It was disabled by hand.',
  receiver_gone: 'The receiver said “410 Gone” to the last try at an event.',
  no_success: 'No try has succeeded for 120 hours.',
} as const

/** A receiver that is being put in place anew misses a try or two; an event that fails has been tried four times by then. */
const longMs = 60 * 60_000

/** Nothing while all is well, or where a person disabled it. */
export function WebhookTrouble({ endpoint }: { readonly endpoint: WebhookEndpoint | null | undefined }) {
  const now = useNow(60_000)
  const { state, reason, disabledAt, failingSince } = endpoint ?? {}
  if (state === 'active') {
    if (failingSince === undefined || now - Date.parse(failingSince) < longMs) return null
    return (
      <Notice label="Webhook failing" title="Your server takes no events" icon={Webhook}>
        <p>
          A try at the webhook endpoint failed <Time at={failingSince} />, and none has succeeded since. Each event is
          tried eight times within 28 hours; after 120 hours without a success the endpoint is disabled. Mail is sent as
          before, and events are kept.
        </p>
        <p>
          What your server answers stands in the log on the <WebhookLink />. When it works again, send again there what
          it has missed.
        </p>
      </Notice>
    )
  }
  if (reason === undefined || reason === 'by_hand') return null
  return (
    <Notice label="Webhook disabled" title="Your server gets no more events" icon={Webhook}>
      <p>
        The webhook endpoint was disabled by itself
        {disabledAt !== undefined && (
          <>
            {' '}
            <Time at={disabledAt} />
          </>
        )}
        . {disableReasons[reason]} Mail is sent as before, and events are kept.
      </p>
      <p>
        When the receiver works again, enable the endpoint on the <WebhookLink /> and send again what it has missed.
      </p>
    </Notice>
  )
}

const WebhookLink = () => (
  <Link to="/webhook" className="text-accent underline">
    webhook page
  </Link>
)
