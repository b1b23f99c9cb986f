// Whom not to write to, and why.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { Ban, Download, Flag, Hand, MailX, Search, Undo2, Upload } from 'lucide-react'
import { useRef, useState } from 'react'
import { ask, read, useChange, useForgetting, useRead } from '../api.ts'
import { serviceNow } from '../clock.ts'
import { PagedTable } from '../list.tsx'
import { useTyped } from '../search.tsx'
import { narrowed, readSuppressionFilter, type SuppressionFilter } from '../filters.ts'
import { useMay } from '../session.tsx'
import type { ApiKey, ListOf, Member, Suppression } from '../shapes.ts'
import { beginningIn } from '../typed.ts'
import { Badge } from '../ui/badge.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { Cancel, Confirm, Dialog, DialogActions, DialogForm } from '../ui/dialog.tsx'
import { AddressField, Choice, FormMistake, mistakeIn, TextField, textIn } from '../ui/field.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Empty } from '../ui/states.tsx'
import { Long } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { UnicodeName } from '../ui/unicode-name.tsx'

const reasons = {
  hard_bounce: { word: 'Hard bounce', icon: MailX, tone: 'bad' },
  complaint: { word: 'Complaint', icon: Flag, tone: 'bad' },
  manual: { word: 'By hand', icon: Hand, tone: 'idle' },
} as const

/** Who added one by hand, as people call them. What neither list has stays as the audit log names it. */
function useAdderNames(): (createdBy: string) => string {
  const members = useRead<ListOf<Member>>(['members'], '/api/v1/members', { enabled: useMay('members.read') })
  const keys = useRead<ListOf<ApiKey>>(['keys'], '/api/v1/keys', { enabled: useMay('keys.read') })
  const names = new Map<string, string>([
    ...(members.data?.items ?? []).map(({ userId, email }) => [`user:${userId}`, email] as const),
    ...(keys.data?.items ?? []).map(({ id, name }) => [`key:${id}`, `the key “${name}”`] as const),
  ])
  return (createdBy) => names.get(createdBy) ?? createdBy
}

export function Suppressions() {
  const adderOf = useAdderNames()
  const filter = readSuppressionFilter(useSearch({ from: '/inside/suppressions' }))
  const navigate = useNavigate()
  const look = (changes: SuppressionFilter, replace = false) =>
    void navigate({ to: '/suppressions', search: narrowed<SuppressionFilter>(filter, changes), replace })
  const [prefix, setPrefix] = useTyped('prefix', filter.prefix, (typed) => look({ prefix: typed }, true))
  const reset = () => void navigate({ to: '/suppressions', search: {} })
  const [adding, setAdding] = useState(false)
  const [removing, setRemoving] = useState<Suppression>()
  const mayWrite = useMay('suppressions.write')
  const download = useExport()
  const add = useChange(
    (recipient: string) => ask('POST', '/api/v1/suppressions', { recipient }),
    ['suppressions'],
    () => setAdding(false),
  )
  useForgetting(adding, add)
  const remove = useChange(
    ({ recipient }: Suppression) => ask('DELETE', `/api/v1/suppressions/${encodeURIComponent(recipient)}`),
    ['suppressions'],
    () => setRemoving(undefined),
  )
  return (
    <Page
      title="Suppressions"
      about="No mail is accepted for these recipients: they bounced hard, complained, or were added by hand."
      actions={
        <>
          <Button
            busy={download.isPending}
            icon={<Download aria-hidden className="size-4" />}
            onClick={() => download.mutate(undefined)}
          >
            Export
          </Button>
          {mayWrite && <Undo />}
          {mayWrite && <Import />}
          {mayWrite && (
            <Button look="primary" onClick={() => setAdding(true)}>
              Add
            </Button>
          )}
        </>
      }
    >
      <FormMistake error={download.error} />
      <div className="grid gap-3 sm:grid-cols-[minmax(0,1fr)_12rem]">
        <TextField
          label="Search"
          type="search"
          placeholder="What the address begins with"
          value={prefix}
          onChange={(event) => setPrefix(event.target.value)}
        />
        <Choice
          label="Reason"
          options={[['', 'Any'], ...Object.entries(reasons).map(([name, { word }]) => [name, word] as const)]}
          value={filter.reason ?? ''}
          onChange={(event) => look({ reason: event.target.value })}
        />
      </div>
      <Card flush>
        <PagedTable<Suppression>
          name="suppressions"
          path="/api/v1/suppressions"
          query={{ ...filter, ...(filter.prefix !== undefined && { prefix: beginningIn(filter.prefix) }) }}
          label="Suppressions"
          keyOf={({ recipient }) => recipient}
          columns={[
            {
              head: 'Recipient',
              cell: ({ recipient }) => (
                <span className="block min-w-24 font-medium wrap-anywhere">
                  {recipient}
                  <UnicodeName of={recipient} />
                </span>
              ),
            },
            {
              head: 'Reason',
              cell: (row) => {
                const { word, icon, tone } = reasons[row.reason]
                return (
                  <Badge tone={tone} icon={icon}>
                    {word}
                  </Badge>
                )
              },
            },
            {
              head: 'Evidence',
              wideOnly: true,
              cell: ({ evidence, rule, sourceMessageId, createdBy }) =>
                (evidence ?? rule ?? sourceMessageId ?? createdBy) !== undefined && (
                  <span className="grid gap-0.5 text-xs text-soft">
                    {createdBy !== undefined && <span className="wrap-anywhere">by {adderOf(createdBy)}</span>}
                    {evidence !== undefined && <Long text={evidence} className="font-mono" />}
                    <span className="flex gap-2">
                      {rule !== undefined && <span>rule {rule}</span>}
                      {sourceMessageId !== undefined && (
                        <Link
                          to="/messages/$messageId"
                          params={{ messageId: sourceMessageId }}
                          className="text-accent underline"
                        >
                          the message
                        </Link>
                      )}
                    </span>
                  </span>
                ),
            },
            { head: 'Since', cell: ({ createdAt }) => <Time at={createdAt} /> },
            {
              head: '',
              align: 'right',
              cell: (row) =>
                mayWrite && (
                  <Button look="quiet" of={row.recipient} onClick={() => setRemoving(row)}>
                    Remove
                  </Button>
                ),
            },
          ]}
          empty={
            Object.keys(filter).length === 0 ? (
              <Empty icon={Ban} title="Nobody is suppressed." />
            ) : (
              <Empty icon={Search} title="Nothing was found.">
                <Button onClick={reset}>Show all</Button>
              </Empty>
            )
          }
        />
      </Card>
      <Dialog
        title="Suppress a recipient"
        description="Mail to it is refused from now on. Import takes many at once."
        open={adding}
        onOpenChange={setAdding}
      >
        <DialogForm
          action="Suppress"
          by={add}
          fields={['recipient']}
          onSubmit={(form) => add.mutate(textIn(form, 'recipient').trim())}
        >
          <AddressField name="recipient" mistake={mistakeIn(add.error, 'recipient')} />
        </DialogForm>
      </Dialog>
      <Confirm
        title="Write to this recipient again?"
        action="Remove"
        of={removing}
        close={() => setRemoving(undefined)}
        by={remove}
        onConfirm={remove.mutate}
      >
        Mail to {removing?.recipient} is accepted again. If it bounces again, it is suppressed again.
      </Confirm>
    </Page>
  )
}

/** A download that carries the workspace: a plain link could not name it. */
function useExport() {
  return useChange(async () => {
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([await read('/api/v1/suppressions.csv')], { type: 'text/csv' }))
    link.download = 'suppressions.csv'
    link.click()
    URL.revokeObjectURL(link.href)
  }, [])
}

function Import() {
  const [open, setOpen] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const [reason, setReason] = useState('manual')
  const send = useChange(
    async (file: File) =>
      ask<{ added: number; alreadyThere: number; ignoredColumns: readonly string[] }>(
        'POST',
        '/api/v1/suppressions/import',
        { csv: await file.text(), ...(reason !== 'manual' && { reason }) },
      ),
    ['suppressions'],
  )
  useForgetting(open, send)
  const isUnderWay = send.isPending && send.data === undefined
  return (
    <Dialog
      title="Import suppressions"
      description="A CSV file with a column “recipient” or “email”, as other services export it, too, or one address a line. All or nothing: wrong lines are named."
      trigger={
        <button type="button" className={buttonClass()}>
          <Upload aria-hidden className="size-4" /> Import
        </button>
      }
      open={open}
      onOpenChange={setOpen}
    >
      <Choice
        label="Where the file tells no reason"
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        options={Object.entries(reasons).map(([name, { word }]) => [name, word] as const)}
      />
      <input
        ref={input}
        type="file"
        accept=".csv,text/csv,text/plain"
        aria-label="CSV file"
        // As a button that works: no second file beside the first, and the dialog stays for what is said to it.
        aria-busy={isUnderWay}
        aria-disabled={isUnderWay || undefined}
        onClick={(event) => isUnderWay && event.preventDefault()}
        className="text-sm aria-disabled:opacity-55 file:mr-3 file:rounded-lg file:border file:border-line file:bg-sunken file:px-3 file:py-1.5"
        onChange={(event) => {
          const file = event.target.files?.[0]
          if (file !== undefined && !isUnderWay) send.mutate(file)
          // The same file again, corrected, is a choice, too.
          event.target.value = ''
        }}
      />
      {isUnderWay && (
        <p role="status" className="text-sm text-soft">
          {send.variables?.name} is being read…
        </p>
      )}
      {send.data !== undefined && (
        <p role="status" className="text-sm text-good">
          {send.data.added.toLocaleString()} added, {send.data.alreadyThere.toLocaleString()}{' '}
          {send.data.alreadyThere === 1 ? 'was' : 'were'} there already.
          {send.data.ignoredColumns.length > 0 && ` Not read: ${send.data.ignoredColumns.join(', ')}.`}
        </p>
      )}
      <FormMistake error={send.error} />
      <DialogActions>
        <Cancel>Close</Cancel>
      </DialogActions>
    </Dialog>
  )
}

/** After a rule that was wrong, or a provider that said wrong things for a day. */
function Undo() {
  const [open, setOpen] = useState(false)
  const undo = useChange(
    ({ rule, hours }: { rule: string; hours: number }) =>
      ask<{ removed: number }>('POST', '/api/v1/suppressions/undo', {
        rule,
        since: new Date(serviceNow() - hours * 3_600_000).toISOString(),
      }),
    ['suppressions'],
  )
  useForgetting(open, undo)
  return (
    <Dialog
      title="Take back what a rule did"
      description="After a wrong rule, or a provider that said wrong things for a day: mail to these recipients is accepted again."
      trigger={
        <button type="button" className={buttonClass()}>
          <Undo2 aria-hidden className="size-4" /> Undo a rule
        </button>
      }
      open={open}
      onOpenChange={setOpen}
    >
      <DialogForm
        action="Take back"
        look="danger"
        by={undo}
        fields={['rule']}
        cancel="Close"
        onSubmit={(form) => undo.mutate({ rule: textIn(form, 'rule').trim(), hours: Number(textIn(form, 'hours')) })}
      >
        <TextField
          label="Rule"
          name="rule"
          required
          hint="As the column “Evidence” names it."
          mistake={mistakeIn(undo.error, 'rule')}
        />
        <TextField label="Of the last hours" name="hours" type="number" min={1} max={8760} required defaultValue={24} />
        {undo.data !== undefined && (
          <p role="status" className="text-sm text-good">
            {undo.data.removed === 1 ? '1 recipient is' : `${undo.data.removed.toLocaleString()} recipients are`} no
            longer suppressed.
          </p>
        )}
      </DialogForm>
    </Dialog>
  )
}
