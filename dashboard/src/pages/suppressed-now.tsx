// Whether mail to an address would be refused now: the answer to "why do they get nothing?", wherever somebody looks for their mail.
import { Link } from '@tanstack/react-router'
import { Ban } from 'lucide-react'
import { useRead, withQuery } from '../api.ts'
import { useMay } from '../session.tsx'
import type { PageOf, Suppression } from '../shapes.ts'
import { Notice } from '../ui/notice.tsx'
import { Time } from '../ui/time.tsx'

const because = {
  hard_bounce: 'a provider said that it does not exist or takes no mail',
  complaint: 'its reader called a mail spam',
  manual: 'somebody added it by hand',
} as const

/** Nothing where it is not. Of all that begin so, the address itself is the first. */
export function SuppressedNow({ recipient, messageId }: { readonly recipient: string; readonly messageId?: string }) {
  const { data } = useRead<PageOf<Suppression>>(
    ['suppressions', 'of', recipient],
    withQuery('/api/v1/suppressions', { prefix: recipient, limit: 1 }),
    { enabled: useMay('suppressions.read') },
  )
  const found = data?.items[0]
  if (found === undefined || found.recipient.toLowerCase() !== recipient.toLowerCase()) return null
  return (
    <Notice label="Suppressed" title="This address is suppressed now" icon={Ban} tone="warn">
      <p>
        <strong className="font-medium wrap-anywhere">{found.recipient}</strong> was suppressed{' '}
        <Time at={found.createdAt} />, because {because[found.reason]}
        {found.sourceMessageId !== undefined && (
          <>
            {' '}
            (after{' '}
            {found.sourceMessageId === messageId ? (
              'this message'
            ) : (
              <Link
                to="/messages/$messageId"
                params={{ messageId: found.sourceMessageId }}
                className="text-accent underline"
              >
                this message
              </Link>
            )}
            )
          </>
        )}
        . New mail to it is refused.
      </p>
      <p>
        <Link to="/suppressions" search={{ prefix: found.recipient }} className="text-accent underline">
          See the suppression
        </Link>
        , what was said, and how to write to them again; what was handed in since stands at{' '}
        <Link to="/refused" search={{ code: 'recipient_suppressed' }} className="text-accent underline">
          Refused
        </Link>
        .
      </p>
    </Notice>
  )
}
