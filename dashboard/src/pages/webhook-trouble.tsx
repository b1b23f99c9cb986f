// The workspace's webhook endpoint, and the words that stand on every page where it matters that it was disabled by itself.
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Webhook } from 'lucide-react'
import { ApiError, get } from '../api.ts'
import type { WebhookEndpoint } from '../shapes.ts'
import { Time } from '../ui/time.tsx'

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

/** Nothing while all is well, or where a person disabled it. */
export function WebhookTrouble({ endpoint }: { readonly endpoint: WebhookEndpoint | null | undefined }) {
  const { reason, disabledAt } = endpoint ?? {}
  if (reason === undefined || reason === 'by_hand') return null
  return (
    <section
      aria-label="Webhook disabled"
      className="flex gap-3 rounded-xl border border-bad/40 bg-bad-wash p-4 sm:p-5"
    >
      <Webhook aria-hidden className="mt-0.5 size-5 shrink-0 text-bad" />
      <div className="grid gap-2">
        <h2 className="font-semibold text-bad">Your server gets no more events</h2>
        <p className="max-w-2xl text-sm">
          The webhook endpoint was disabled by itself
          {disabledAt !== undefined && (
            <>
              {' '}
              <Time at={disabledAt} />
            </>
          )}
          . {disableReasons[reason]} Mail is sent as before, and events are kept.
        </p>
        <p className="max-w-2xl text-sm">
          When the receiver works again, enable the endpoint on the{' '}
          <Link to="/webhook" className="text-accent underline">
            webhook page
          </Link>{' '}
          and send again what it has missed.
        </p>
      </div>
    </section>
  )
}
