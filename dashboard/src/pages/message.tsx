// One message: what it was, where it stands, and its whole story.
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { CircleHelp, CircleX } from 'lucide-react'
import { Fragment, useState } from 'react'
import { ApiError, ask, useChange, useRead } from '../api.ts'
import { serviceNow } from '../clock.ts'
import { useIntervalOf } from '../live.ts'
import { useMay } from '../session.tsx'
import type { MessageTimeline } from '../shapes.ts'
import { addressIn } from '../typed.ts'
import { Address } from '../ui/address.tsx'
import { StateBadge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Id } from '../ui/copy.tsx'
import { Confirm } from '../ui/dialog.tsx'
import { Card, Facts, Page } from '../ui/page.tsx'
import { Answered } from '../ui/states.tsx'
import { exactly, notBefore, Time, useNow } from '../ui/time.tsx'
import { UnicodeName } from '../ui/unicode-name.tsx'
import { Elsewhere } from './elsewhere.tsx'
import { titleOf } from './messages.tsx'
import { Preview } from './preview.tsx'
import { Story } from './story.tsx'
import { SuppressedNow } from './suppressed-now.tsx'

const isOpen = (timeline: MessageTimeline | undefined): boolean =>
  timeline === undefined || ['queued', 'sending', 'retrying'].includes(timeline.processingStatus)

/** Not there, or no id: an address that was cut on its way. */
const isMissing = (error: Error | null): boolean =>
  error instanceof ApiError && (error.status === 404 || error.field === 'messageId')

/** Until something may be told of a post to the webhook; Infinity where nothing is under way. */
function postPauseMs(timeline: MessageTimeline | undefined): number {
  const pauses = (timeline?.events ?? []).flatMap(({ webhook }) => {
    if (webhook?.state === 'sending') return [0]
    return webhook?.nextAttemptAt === undefined ? [] : [Date.parse(webhook.nextAttemptAt) - serviceNow()]
  })
  return Math.max(1_000, Math.min(...pauses))
}

export function MessagePage() {
  const { messageId } = useParams({ from: '/inside/messages/$messageId' })
  const interval = useIntervalOf('message')
  const query = useRead<MessageTimeline>(
    ['message', messageId],
    `/api/v1/messages/${encodeURIComponent(messageId)}/timeline`,
    {
      // The stream tells of messages alone; posts to webhooks are looked for when they are due.
      refetchInterval: ({ state }) =>
        !isMissing(state.error) && Math.min(postPauseMs(state.data), interval(isOpen(state.data) ? 1_000 : 15_000)),
    },
  )
  if (isMissing(query.error) && query.error !== null && query.data === undefined)
    return (
      <Page key={messageId} title="Message">
        <Elsewhere id={messageId} error={query.error} />
      </Page>
    )
  return (
    <Page
      key={messageId}
      title={query.data === undefined ? 'Message' : titleOf(query.data.message.subject)}
      about={
        query.data !== undefined && (
          <span className="flex flex-wrap items-center gap-2">
            <StateBadge state={query.data.processingStatus} />
            <StateBadge state={query.data.deliveryStatus} />
            <span className="break-words">
              to <strong className="font-medium text-ink">{query.data.message.recipient}</strong>
            </span>
          </span>
        )
      }
    >
      <Answered query={query} rows={8}>
        {(timeline) => (
          <>
            {timeline.processingStatus === 'delivery_unknown' && <UnknownBanner timeline={timeline} />}
            {timeline.processingStatus === 'failed' && <FailedBanner timeline={timeline} />}
            {timeline.processingStatus === 'sent' && timeline.sentAgainAs !== undefined && (
              <p className="text-sm text-soft">
                Before it was known that it had been sent, it was sent again as{' '}
                <MessageLink id={timeline.sentAgainAs} />: the recipient may have it twice.
              </p>
            )}
            <SuppressedNow recipient={timeline.message.recipient} messageId={timeline.message.id} />
            {timeline.sentAgainFor !== undefined && (
              <p className="text-sm text-soft">
                Sent in the place of <MessageLink id={timeline.sentAgainFor} />
                {inWhosePlace[timeline.sentAgainForStatus ?? ''] ?? '.'}
              </p>
            )}
            <div className="grid items-start gap-6 lg:grid-cols-[minmax(0,1fr)_20rem]">
              <div className="grid gap-6">
                <Card title="What happened">
                  <Story timeline={timeline} />
                </Card>
                {timeline.message.contentExpiredAt === undefined ? (
                  <Preview id={timeline.message.id} />
                ) : (
                  <Card title="Mail">
                    <p className="text-sm text-soft">
                      Expired <Time at={timeline.message.contentExpiredAt} />; contents are kept for a while only.
                    </p>
                  </Card>
                )}
              </div>
              <div className="grid gap-6">
                <Details timeline={timeline} />
                <Metadata of={timeline.message.metadata ?? {}} />
              </div>
            </div>
          </>
        )}
      </Answered>
    </Page>
  )
}

function MessageLink({ id }: { readonly id: string }) {
  return (
    <Link to="/messages/$messageId" params={{ messageId: id }} className="text-accent underline">
      this message
    </Link>
  )
}

/** What is known now of the message in whose place another one was sent. */
const inWhosePlace: Readonly<Record<string, string>> = {
  failed: ', which failed.',
  delivery_unknown: ', whose outcome nobody can know.',
  sent: ', of which became known later that it had been sent, too: the recipient may have it twice.',
}

/** By the word of its provider, whatever the server said to us. */
const hasCome = ({ deliveryStatus }: MessageTimeline): boolean =>
  deliveryStatus === 'delivered' || deliveryStatus === 'complaint'

function UnknownBanner({ timeline }: { readonly timeline: MessageTimeline }) {
  return (
    <section
      aria-label="Outcome unknown"
      className="flex gap-3 rounded-xl border border-unknown/40 bg-unknown-wash p-4 sm:p-5"
    >
      <CircleHelp aria-hidden className="mt-0.5 size-5 shrink-0 text-unknown" />
      <div className="grid gap-2">
        <h2 className="font-semibold text-unknown">
          {hasCome(timeline) ? 'Its server never answered, and yet it came' : 'Nobody can know whether it arrived'}
        </h2>
        {hasCome(timeline) ? (
          <p className="max-w-2xl text-sm">
            The mail was handed over, and no clear yes or no came back. A report of its provider says since that it
            arrived: whoever gets it again has it twice.
          </p>
        ) : (
          <>
            <p className="max-w-2xl text-sm">
              The mail was handed over, or may have been, and no clear yes or no of the other side is known. The
              recipient has it once, or not at all. Posthorn does not send it again by itself, because then they might
              have it twice.
            </p>
            <p className="max-w-2xl text-sm">
              If a missing copy does harm (a password reset), send it again. If a second copy does harm (an invoice),
              ask the recipient first.
            </p>
          </>
        )}
        <Again timeline={timeline}>They may then have it twice. </Again>
      </div>
    </section>
  )
}

function FailedBanner({ timeline }: { readonly timeline: MessageTimeline }) {
  return (
    <section aria-label="Failed" className="flex gap-3 rounded-xl border border-bad/40 bg-bad-wash p-4 sm:p-5">
      <CircleX aria-hidden className="mt-0.5 size-5 shrink-0 text-bad" />
      <div className="grid gap-2">
        <h2 className="font-semibold text-bad">
          {hasCome(timeline) ? 'It was refused, and yet it came' : 'It was surely not taken'}
        </h2>
        <p className="max-w-2xl text-sm">
          {hasCome(timeline)
            ? 'Its server refused it, and a report of its provider says that it arrived all the same. So it is not sent again.'
            : 'Posthorn does not try it any more; below stands why.'}
          {timeline.sendAgainAt !== undefined && ' When the cause is mended, it can be sent again.'}
        </p>
        {(!hasCome(timeline) || timeline.sentAgainAs !== undefined) && <Again timeline={timeline} />}
      </div>
    </section>
  )
}

/** What was sent in its place, or the way to do that; `children` warn of what it may mean. */
function Again({ timeline, children }: { readonly timeline: MessageTimeline; readonly children?: React.ReactNode }) {
  const [asking, setAsking] = useState(false)
  const navigate = useNavigate()
  const maySend = useMay('mail.send')
  const { id, recipient, expiresAt, contentExpiredAt } = timeline.message
  const again = useChange(
    () => ask<{ id: string }>('POST', `/api/v1/messages/${id}/send-again`),
    ['message', 'messages'],
    (made) => {
      setAsking(false)
      void navigate({ to: '/messages/$messageId', params: { messageId: made.id } })
    },
  )
  if (timeline.sentAgainAs !== undefined)
    return (
      <p className="text-sm">
        It was sent again as <MessageLink id={timeline.sentAgainAs} />.
      </p>
    )
  if (contentExpiredAt !== undefined)
    return <p className="text-sm">Its content is not kept any more, so it cannot be sent again.</p>
  if (timeline.sendAgainAt === undefined) return null
  if (!maySend)
    return <p className="text-sm">Your role may not send it again; an owner, an admin or a developer may.</p>
  return (
    <>
      <SendAgainButton from={timeline.sendAgainAt} onClick={() => setAsking(true)} />
      <Confirm
        title="Send it again?"
        action="Send again"
        of={asking || undefined}
        close={() => setAsking(false)}
        by={again}
        onConfirm={() => again.mutate(undefined)}
      >
        {recipient} gets the same mail as a new message, with its own id and its own charge. {children}
        {expiresAt !== undefined && 'It is tried for as long as any other: the time at which to give up is not kept. '}
        This can be done once.
      </Confirm>
    </>
  )
}

/** Not before its delivery can no longer end by itself: until then the service would refuse. */
function SendAgainButton({ from, onClick }: { readonly from: string; readonly onClick: () => void }) {
  const now = useNow(1_000)
  const at = Date.parse(from)
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
      <Button disabled={now < at} onClick={onClick}>
        Send again as a new message…
      </Button>
      {now < at && (
        <span className="text-sm" title={exactly(new Date(at))}>
          possible from {notBefore(at)}: until then its outcome may still become known
        </span>
      )}
    </div>
  )
}

/** One that is no address as the filter takes it is found among the words. */
const messagesTo = (recipient: string) => (addressIn(recipient) === undefined ? { text: recipient } : { recipient })

function Details({ timeline: { message, queue, sandboxMailId } }: { readonly timeline: MessageTimeline }) {
  const rows: (readonly [string, React.ReactNode])[] = [
    ['Subject', titleOf(message.subject)],
    [
      'From',
      <Fragment key="from">
        <Address of={message.sender} />
        <UnicodeName of={message.sender} />
      </Fragment>,
    ],
    [
      'To',
      <Fragment key="to">
        <Link to="/messages" search={messagesTo(message.recipient)} className="text-accent underline">
          <Address of={message.recipient} />
          <span className="sr-only">: all messages to it</span>
        </Link>
        <UnicodeName of={message.recipient} />
      </Fragment>,
    ],
    ['Accepted', exactly(new Date(message.createdAt))],
  ]
  if (message.expiresAt !== undefined) rows.push(['Give up', exactly(new Date(message.expiresAt))])
  if (queue !== undefined && queue.status !== 'sending') rows.push(['Next try', <Time key="due" at={queue.dueAt} />])
  if (message.providerMessageId !== undefined)
    rows.push([
      'Their id',
      <code key="theirs" className="font-mono text-xs break-all">
        {message.providerMessageId}
      </code>,
    ])
  if (sandboxMailId !== undefined)
    rows.push([
      'Arrived in',
      <Link key="sandbox" to="/sandbox/$mailId" params={{ mailId: sandboxMailId }} className="text-accent underline">
        the sandbox
      </Link>,
    ])
  rows.push(['Id', <Id key="id" id={message.id} />])
  return (
    <Card title="Details">
      <Facts rows={rows} />
    </Card>
  )
}

/** What the sender wrote beside the message: apart, because it may be called as anything above. */
function Metadata({ of }: { readonly of: Readonly<Record<string, string>> }) {
  const rows = Object.entries(of)
  if (rows.length === 0) return null
  return (
    <Card title="Metadata">
      <Facts rows={rows} />
    </Card>
  )
}
