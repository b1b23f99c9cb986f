// One webhook event: every try at posting it, with the beginning of what the receiver said, and what was posted.
import { Link } from '@tanstack/react-router'
import { Check, CircleDashed, Clock, Send, X } from 'lucide-react'
import { ask, useChange, useRead } from '../api.ts'
import type { WebhookEventDetail, WebhookLogEntry } from '../shapes.ts'
import { Badge, type Tone } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog, DialogActions } from '../ui/dialog.tsx'
import { Done, FormMistake } from '../ui/field.tsx'
import { Answered } from '../ui/states.tsx'
import { duration } from '../ui/span.ts'
import { ClockTime } from '../ui/time.tsx'
import { meaningOf, outcomeOf } from './webhook-outcome.ts'

export const logStates: Readonly<Record<WebhookLogEntry['state'], { tone: Tone; icon: typeof Clock; word: string }>> = {
  waiting: { tone: 'idle', icon: Clock, word: 'Waiting' },
  sending: { tone: 'accent', icon: Send, word: 'Sending' },
  delivered: { tone: 'good', icon: Check, word: 'Delivered' },
  failed: { tone: 'bad', icon: X, word: 'Failed' },
  not_sent: { tone: 'idle', icon: CircleDashed, word: 'Not sent' },
}

type Attempt = WebhookEventDetail['attempts'][number]

export function EventDialog({
  id,
  mayReplay,
  done,
}: {
  readonly id: string
  readonly mayReplay: boolean
  readonly done: () => void
}) {
  const query = useRead<WebhookEventDetail>(['webhook-log', id], `/api/v1/webhook/events/${id}`, {
    refetchInterval: 2_000,
  })
  const replay = useChange(() => ask('POST', '/api/v1/webhook/replay', { eventId: id }), ['webhook-log', 'message'])
  return (
    <Dialog title={query.data?.type ?? 'Event'} open onOpenChange={done}>
      <Answered query={query}>
        {({ attempts, body, messageId, state }) => (
          <div className="grid gap-4">
            {attempts.length === 0 ? (
              <p className="text-sm text-soft">
                {state === 'not_sent'
                  ? 'It was not posted: these events are not wanted, or the endpoint was disabled, or not there yet.'
                  : 'No try has ended yet.'}
              </p>
            ) : (
              <ol className="grid gap-2">
                {attempts.map((attempt) => (
                  <Try key={`${attempt.round} ${attempt.attempt}`} attempt={attempt} />
                ))}
              </ol>
            )}
            {messageId !== undefined && (
              <Link
                to="/messages/$messageId"
                params={{ messageId }}
                onClick={done}
                className="justify-self-start text-sm text-accent underline"
              >
                The message
              </Link>
            )}
            <details>
              <summary className="text-sm text-soft">What is posted</summary>
              <pre tabIndex={0} className="mt-2 max-h-64 overflow-auto rounded-lg bg-sunken p-3 font-mono text-xs">
                {JSON.stringify(body, undefined, 2)}
              </pre>
            </details>
          </div>
        )}
      </Answered>
      <FormMistake error={replay.error} />
      <DialogActions>
        {replay.isSuccess && (
          <span className="self-center">
            <Done>It is posted again; the try appears above.</Done>
          </span>
        )}
        {mayReplay && (
          <Button busy={replay.isPending} onClick={() => replay.mutate(undefined)}>
            Post the event again
          </Button>
        )}
        <Button look="primary" onClick={done}>
          Close
        </Button>
      </DialogActions>
    </Dialog>
  )
}

function Try({ attempt }: { readonly attempt: Attempt }) {
  const { round, attempt: number, endedAt, delivered, durationMs, excerpt } = attempt
  const meaning = meaningOf(attempt)
  return (
    <li className="grid gap-1 rounded-lg border border-line p-2.5 text-sm">
      <span className="flex flex-wrap items-center gap-2">
        <Badge tone={delivered ? 'good' : 'bad'} icon={delivered ? Check : X}>
          {outcomeOf(attempt) ?? (delivered ? 'Delivered' : 'Failed')}
        </Badge>
        <span className="text-soft">
          {round > 1 && 'posted again, '}try {number}
        </span>
        <span className="text-xs text-soft max-sm:basis-full sm:ml-auto">
          {durationMs !== undefined && `${duration(durationMs)} · `}
          <ClockTime at={endedAt} />
        </span>
      </span>
      {meaning !== undefined && <p>{meaning}</p>}
      {excerpt !== undefined && excerpt !== '' && (
        <pre className="max-h-24 overflow-auto font-mono text-xs break-words whitespace-pre-wrap text-soft">
          {excerpt}
        </pre>
      )}
    </li>
  )
}
