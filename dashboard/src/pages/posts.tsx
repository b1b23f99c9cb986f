// The webhook of one event within the story: a line for each POST, and when the next is due. What the receiver said stands in the event's dialog.
import { Clock, Send, Webhook } from 'lucide-react'
import { lazy, Suspense, useState } from 'react'
import { serviceNow } from '../clock.ts'
import { useMay } from '../session.tsx'
import type { TimelineEvent } from '../shapes.ts'
import { duration } from '../ui/span.ts'
import { ClockTime, Time } from '../ui/time.tsx'
import { numberOf, outcomeOf } from './webhook-outcome.ts'

const EventDialog = lazy(async () => ({ default: (await import('./webhook-event.tsx')).EventDialog }))

type Posted = NonNullable<TimelineEvent['webhook']>

export function Posts({ id, webhook }: { readonly id: string; readonly webhook: Posted }) {
  const [open, setOpen] = useState(false)
  const mayReplay = useMay('webhooks.write')
  const { attempts, state, nextAttemptAt } = webhook
  const isDue = nextAttemptAt === undefined || Date.parse(nextAttemptAt) <= serviceNow()
  return (
    <div className="flex gap-1.5 text-xs text-soft tabular-nums">
      <Webhook aria-hidden className="mt-px size-3.5 shrink-0" />
      <ul aria-label="Webhook" className="grid flex-1 gap-1">
        {attempts.map((post) => (
          <li key={`${post.round} ${post.attempt}`} className="flex flex-wrap items-baseline gap-x-1.5">
            <button
              type="button"
              className="underline decoration-line underline-offset-2 hover:text-ink hover:decoration-current"
              onClick={() => setOpen(true)}
            >
              Webhook{numberOf(post)}
            </button>
            <span className={post.delivered ? 'text-good' : 'text-bad'}>
              {post.delivered ? 'delivered' : 'failed'}: {outcomeOf(post)}
            </span>
            {post.durationMs !== undefined && <span>in {duration(post.durationMs)}</span>}
            <span className="max-sm:basis-full sm:ml-auto">
              <ClockTime at={post.endedAt} />
            </span>
          </li>
        ))}
        {(state === 'waiting' || state === 'sending') && (
          <li className="flex items-center gap-1">
            {state === 'sending' ? (
              <>
                <Send aria-hidden className="size-3" /> Webhook: being posted
              </>
            ) : (
              <>
                <Clock aria-hidden className="size-3" />{' '}
                {isDue ? (
                  'Webhook: waits for its turn'
                ) : (
                  <>
                    Webhook: next try <Time at={nextAttemptAt} />
                  </>
                )}
              </>
            )}
          </li>
        )}
        {state === 'failed' && <li className="text-bad">Webhook: given up; send it again by hand.</li>}
      </ul>
      {open && (
        <Suspense>
          <EventDialog id={id} mayReplay={mayReplay} done={() => setOpen(false)} />
        </Suspense>
      )}
    </div>
  )
}
