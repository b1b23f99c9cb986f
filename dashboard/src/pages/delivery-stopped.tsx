// That nobody's mail goes out: for everybody, that nothing is lost; for those who run the installation, why, and what to do.
import { Link } from '@tanstack/react-router'
import { OctagonPause } from 'lucide-react'
import { useRead } from '../api.ts'
import { useLooking } from '../session.tsx'
import type { Health, Queue, Usage } from '../shapes.ts'
import { Notice } from '../ui/notice.tsx'
import { Time } from '../ui/time.tsx'

const stopWords = {
  drain: 'Somebody has stopped it. To deliver again: posthorn drain --off',
  fence: 'The database may have been put back: read docs/restore.md, then posthorn recover.',
  pause: 'It goes on by itself when every node has compared with the database.',
} as const

/** Each reason, since when, and the way out. */
export function Stops({ stops }: Pick<Queue, 'stops'>) {
  return stops.map(({ kind, reason, since }) => (
    <p key={kind} className="text-sm">
      <Time at={since} />: {kind} ({reason}). {stopWords[kind]}
    </p>
  ))
}

/** Nothing while delivery goes on. */
export function DeliveryStopped({ usage }: { readonly usage: Usage | undefined }) {
  const { session } = useLooking()
  const since = usage?.deliveryStoppedSince
  const health = useRead<Health>(['health'], '/api/v1/operator/health', {
    enabled: session.operator && since !== undefined,
    refetchInterval: 10_000,
  })
  if (since === undefined) return null
  return (
    <Notice label="Delivery stopped" title="No mail goes out at the moment" icon={OctagonPause}>
      <p>
        Delivery was stopped in this whole installation <Time at={since} />. Nothing is lost: mail is accepted as
        before, waits, and goes out when delivery goes on.
        {!session.operator && ' Whoever runs this Posthorn knows why.'}
      </p>
      {session.operator && (
        <>
          <Stops stops={health.data?.stops ?? []} />
          <p>
            <Link to="/operator/queue" className="text-accent underline">
              What waits
            </Link>
          </p>
        </>
      )}
    </Notice>
  )
}
