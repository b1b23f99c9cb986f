// One domain: the records to set, what was seen of each and what to do, and a new DKIM key.
import { useNavigate, useParams } from '@tanstack/react-router'
import { Info, RotateCw, TriangleAlert } from 'lucide-react'
import { useState } from 'react'
import { ask, useChange, useRead } from '../api.ts'
import { useMay } from '../session.tsx'
import type { Domain } from '../shapes.ts'
import { DomainBadge, StateBadge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { CopyButton, Snippet } from '../ui/copy.tsx'
import { Confirm } from '../ui/dialog.tsx'
import { FormMistake } from '../ui/field.tsx'
import { Notice } from '../ui/notice.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Sentence } from '../ui/sentence.tsx'
import { Answered } from '../ui/states.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { UnicodeName } from '../ui/unicode-name.tsx'

type DnsRecord = Domain['records'][number]

const purposes = {
  ownership: 'Proves that the domain is yours',
  dkim: 'Signs your mail (DKIM)',
  dkim_ed25519: 'Signs your mail a second time (DKIM, Ed25519)',
  return_path: 'Where bounces come back to',
  dmarc: 'Says what others do with forged mail (DMARC)',
} as const

export function DomainPage() {
  const { domainId } = useParams({ from: '/inside/domains/$domainId' })
  const path = `/api/v1/domains/${encodeURIComponent(domainId)}`
  const query = useRead<Domain>(['domains', domainId], path, { refetchInterval: 15_000 })
  const mayWrite = useMay('domains.write')
  const navigate = useNavigate()
  const [asking, setAsking] = useState<'remove' | 'rotate' | 'rotate_ed25519' | 'end_ed25519'>()
  const check = useChange(() => ask('POST', `${path}/check`), ['domains'])
  const rotate = useChange(
    () => ask('POST', `${path}/dkim/rotate`),
    ['domains'],
    () => setAsking(undefined),
  )
  const rotateEd25519 = useChange(
    () => ask('POST', `${path}/dkim/rotate?algorithm=ed25519-sha256`),
    ['domains'],
    () => setAsking(undefined),
  )
  const endEd25519 = useChange(
    () => ask('DELETE', `${path}/dkim/ed25519`),
    ['domains'],
    () => setAsking(undefined),
  )
  const remove = useChange(
    () => ask('DELETE', path),
    ['domains'],
    () => void navigate({ to: '/domains' }),
  )
  return (
    <Page
      title={query.data?.name ?? 'Domain'}
      about={
        query.data !== undefined && (
          <>
            <UnicodeName of={query.data.name} />
            <Standing domain={query.data} />
          </>
        )
      }
      actions={
        mayWrite &&
        query.data !== undefined && (
          <>
            <Button look="primary" busy={check.isPending} onClick={() => check.mutate(undefined)}>
              Check now
            </Button>
            <Button icon={<RotateCw aria-hidden className="size-4" />} onClick={() => setAsking('rotate')}>
              New DKIM key…
            </Button>
            <Button look="danger" onClick={() => setAsking('remove')}>
              Remove
            </Button>
          </>
        )
      }
    >
      <FormMistake error={check.error} />
      <Answered query={query}>
        {({ records, zoneFile, advice }) => (
          <>
            <NotYet records={records} />
            <Card title="Records to set" about="Where you manage the DNS of this domain. Copy them exactly." flush>
              <ul className="border-t border-line">
                {records.map((record) => (
                  <RecordRow key={`${record.type} ${record.name}`} record={record} />
                ))}
              </ul>
            </Card>
            {mayWrite && <Ed25519 records={records} choose={setAsking} />}
            {advice.length > 0 && (
              <Card title="Worth knowing">
                <ul className="grid gap-2 text-sm">
                  {advice.map((words) => (
                    <li key={words} className="flex gap-2">
                      <Info aria-hidden className="mt-0.5 size-4 shrink-0 text-soft" />
                      <span>
                        <Sentence of={words} />
                      </span>
                    </li>
                  ))}
                </ul>
              </Card>
            )}
            {zoneFile !== '' && (
              <Card title="As a zone file" about="What is still to set.">
                <Snippet text={zoneFile} label="zone file" />
              </Card>
            )}
          </>
        )}
      </Answered>
      <Confirm
        title="Make a new DKIM key?"
        action="Make it"
        of={asking === 'rotate' || undefined}
        close={() => setAsking(undefined)}
        by={rotate}
        onConfirm={() => rotate.mutate(undefined)}
      >
        You get another record to set. The present key signs until the new record is seen, so no mail goes unsigned.
      </Confirm>
      <Confirm
        title="Make an Ed25519 key?"
        action="Make it"
        of={asking === 'rotate_ed25519' || undefined}
        close={() => setAsking(undefined)}
        by={rotateEd25519}
        onConfirm={() => rotateEd25519.mutate(undefined)}
      >
        You get another record to set. When it is seen, the key signs your mail beside the RSA key.
      </Confirm>
      <Confirm
        title="End the Ed25519 key?"
        action="End it"
        of={asking === 'end_ed25519' || undefined}
        close={() => setAsking(undefined)}
        by={endEd25519}
        onConfirm={() => endEd25519.mutate(undefined)}
      >
        Your mail is signed with RSA alone from then on. If the key has signed mail, its record says how long it must
        stay.
      </Confirm>
      <Confirm
        title="Remove this domain?"
        action="Remove"
        of={asking === 'remove' || undefined}
        close={() => setAsking(undefined)}
        by={remove}
        onConfirm={() => remove.mutate(undefined)}
      >
        Its DKIM key is deleted with it. A domain that has mailboxes stays until they are removed.
      </Confirm>
    </Page>
  )
}

/** Nothing depends on it, and so nothing asks for it. */
function Ed25519({
  records,
  choose,
}: {
  readonly records: readonly DnsRecord[]
  readonly choose: (what: 'rotate_ed25519' | 'end_ed25519') => void
}) {
  const isThere = records.some(({ purpose, status }) => purpose === 'dkim_ed25519' && status !== 'retiring')
  return (
    <Card
      title="Second signature"
      actions={
        <>
          <Button onClick={() => choose('rotate_ed25519')}>{isThere ? 'New Ed25519 key…' : 'Add Ed25519 key…'}</Button>
          {isThere && <Button onClick={() => choose('end_ed25519')}>End it…</Button>}
        </>
      }
    >
      <p className="max-w-3xl text-sm">
        An Ed25519 key beside the RSA key (RFC 8463). Few receivers look at it yet, and nothing depends on it: while its
        record is not there, your mail is signed with RSA alone.
      </p>
    </Card>
  )
}

function Standing({ domain: { status, vouched, brokenSince, checkedAt, nextCheckAt } }: { readonly domain: Domain }) {
  return (
    <span className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm">
      <DomainBadge status={status} />
      {vouched && <span>An operator vouches for it: checks change nothing.</span>}
      {brokenSince !== undefined && (
        <span>
          broken since <Time at={brokenSince} />
        </span>
      )}
      {checkedAt !== undefined && (
        <span>
          looked at <Time at={checkedAt} />
        </span>
      )}
      {nextCheckAt !== undefined && <NextCheck at={nextCheckAt} />}
    </span>
  )
}

/** The look comes some seconds after its time, and is seen some later. */
function NextCheck({ at }: { readonly at: string }) {
  return useNow(1_000) >= Date.parse(at) ? (
    <span>about to be looked at</span>
  ) : (
    <span>
      next <Time at={at} />
    </span>
  )
}

/** What must be done here before a record can be set there; nothing where all are ready. */
function NotYet({ records }: { readonly records: readonly DnsRecord[] }) {
  const waiting = records.find(({ waitsFor }) => waitsFor !== undefined)
  if (waiting === undefined) return null
  return (
    <Notice label="Not ready" title="One record is not ready to be set" icon={TriangleAlert} tone="warn">
      <p>{waiting.finding !== undefined && <Sentence of={waiting.finding} />}</p>
      <p>The other records below are ready, and the domain can send without this one.</p>
    </Notice>
  )
}

function RecordRow({ record }: { readonly record: DnsRecord }) {
  const { purpose, type, name, value, status, found, finding, waitsFor } = record
  // Beside what is asked for anyway.
  const others = [...new Set(found ?? [])].filter((text) => text !== value)
  return (
    <li className="grid gap-2 border-b border-line px-4 py-3 last:border-0 sm:px-5">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h3 className="text-sm font-medium">{purposes[purpose]}</h3>
        <StateBadge state={waitsFor !== undefined ? 'not_ready' : status === 'pending' ? 'awaited' : status} />
      </div>
      <dl className="grid grid-cols-[3.5rem_minmax(0,1fr)] items-center gap-x-3 text-sm">
        <dt className="text-soft">Type</dt>
        <dd className="font-mono text-xs">{type}</dd>
        <dt className="text-soft">Name</dt>
        <dd>
          {waitsFor === undefined ? (
            <Copyable text={name} label={`Copy the name of the ${type} record ${name}`} />
          ) : (
            <code className="font-mono text-xs break-all">{name}</code>
          )}
        </dd>
        <dt className="text-soft">Value</dt>
        <dd>
          {waitsFor === undefined ? (
            <Copyable text={value} label={`Copy the value of the ${type} record ${name}`} />
          ) : (
            'Not known yet: do not set this record now.'
          )}
        </dd>
      </dl>
      {finding !== undefined && waitsFor === undefined && (
        <p className="max-w-3xl text-sm">
          <Sentence of={finding} />
        </p>
      )}
      {others.length > 0 && (
        <div className="text-sm text-soft">
          <p>{status === 'wrong' ? 'What stands there instead:' : 'What stands there:'}</p>
          <ul className="font-mono text-xs break-all">
            {others.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </div>
      )}
    </li>
  )
}

function Copyable({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <span className="flex items-center gap-1">
      <code title={text} className="truncate font-mono text-xs">
        {text}
      </code>
      <CopyButton text={text} label={label} />
    </span>
  )
}
