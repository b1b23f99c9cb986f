// What API keys and SMTP credentials have in common: when one ends and was last used, and taking it away, which nothing undoes.
import { useState, type ReactNode } from 'react'
import { ask, useChange, useRead } from '../api.ts'
import { useMay } from '../session.tsx'
import type { ApiKey, ApiKeyRevoked, ListOf, SmtpCredentials } from '../shapes.ts'
import { StateBadge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Confirm, Dialog, DialogActions } from '../ui/dialog.tsx'
import { Table, type Column } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

interface Revocable {
  readonly id: string
  readonly name: string
  readonly createdAt: string
  readonly lastUsedAt?: string
  readonly expiresAt?: string
  readonly expired: boolean
  readonly revokedAt?: string
}

/** Those of the workspace, as far as this person may see them: also the revoked ones, and none before they are read. */
export function useKeysAndLogins() {
  const keys = useRead<ListOf<ApiKey>>(['keys'], '/api/v1/keys', { enabled: useMay('keys.read') })
  const logins = useRead<SmtpCredentials>(['smtp-credentials'], '/api/v1/smtp-credentials', {
    enabled: useMay('smtp-credentials.read'),
  })
  return [...(keys.data?.items ?? []), ...(logins.data?.items ?? [])]
}

/** What of its secret may be seen, as on the page of keys. */
export const shownOf = (each: ReturnType<typeof useKeysAndLogins>[number]): string =>
  'prefix' in each ? `${each.prefix}…` : each.username

/** The last columns of a list of them, and the question before one is revoked. */
export function useRevoking<Item extends Revocable>(
  list: 'keys' | 'smtp-credentials',
  consequence: string,
): { readonly columns: readonly Column<Item>[]; readonly question: ReactNode } {
  const [revoking, setRevoking] = useState<Item>()
  const [outlived, setOutlived] = useState<Outlived>()
  const mayWrite = useMay(`${list}.write`)
  const revoke = useChange(
    ({ id }: Item) => ask<Outlived>('DELETE', `/api/v1/${list}/${id}`),
    [list],
    (answer) => {
      setRevoking(undefined)
      if (answer.stillValid !== undefined) setOutlived(answer)
    },
  )
  return {
    columns: [
      {
        head: 'Ends',
        // Few logins end, and their usernames are long.
        wideOnly: list === 'smtp-credentials',
        cell: ({ expiresAt }) =>
          expiresAt === undefined ? <span className="text-soft">Never</span> : <Time at={expiresAt} />,
      },
      { head: 'Made', wideOnly: true, cell: ({ createdAt }) => <Time at={createdAt} /> },
      {
        head: 'Last used',
        wideOnly: true,
        cell: ({ lastUsedAt }) =>
          lastUsedAt === undefined ? <span className="text-soft">Never</span> : <Time at={lastUsedAt} />,
      },
      {
        head: '',
        align: 'right',
        cell: (item) =>
          item.revokedAt !== undefined ? (
            <StateBadge state="revoked" />
          ) : (
            <span className="inline-flex flex-wrap items-center justify-end gap-2">
              {item.expired && <StateBadge state="expired" />}
              {mayWrite && (
                <Button look="quiet" of={item.name} onClick={() => setRevoking(item)}>
                  Revoke
                </Button>
              )}
            </span>
          ),
      },
    ],
    question: (
      <>
        <Confirm
          title={`Revoke “${revoking?.name ?? ''}”?`}
          action="Revoke"
          of={revoking}
          close={() => setRevoking(undefined)}
          by={revoke}
          onConfirm={revoke.mutate}
        >
          {consequence} It cannot be taken back.
        </Confirm>
        {outlived !== undefined && <StillValid of={outlived} done={() => setOutlived(undefined)} />}
      </>
    ),
  }
}

/** Those that may work, and behind them, to be opened, those that never will again: they are kept, because refusals name them, and are soon the most. */
export function Revocables<Item extends Revocable>({
  label,
  items,
  columns,
  empty,
}: {
  readonly label: string
  readonly items: readonly Item[]
  readonly columns: readonly Column<Item>[]
  /** In their place where there is none. */
  readonly empty: ReactNode
}) {
  const revoked = items.filter(({ revokedAt }) => revokedAt !== undefined)
  const others = items.filter(({ revokedAt }) => revokedAt === undefined)
  const keyOf = ({ id }: Item) => id
  return (
    <>
      {others.length === 0 ? empty : <Table label={label} rows={others} keyOf={keyOf} columns={columns} />}
      {revoked.length > 0 && (
        <details className="border-t border-line text-sm">
          <summary className="px-4 py-2.5 text-soft sm:px-5">Revoked ({revoked.length.toLocaleString()})</summary>
          <Table label={`${label} that are revoked`} rows={revoked} keyOf={keyOf} columns={columns} />
        </details>
      )}
    </>
  )
}

/** What was revoked, and what it had made. */
type Outlived = Pick<ApiKeyRevoked, 'name' | 'stillValid'>

const madeKinds = {
  key: 'API key',
  smtp_credential: 'SMTP credential',
  member: 'Member, who came by its invitation',
  webhook: 'Webhook endpoint: it was set with it, or its secret was shown to it',
} as const

function StillValid({ of: { name, stillValid = [] }, done }: { readonly of: Outlived; readonly done: () => void }) {
  return (
    <Dialog
      title={`“${name}” is revoked; what it has made is not`}
      description="These were made with it, or with what it had made, and still work. If it leaked, revoke or remove them, too."
      open
      onOpenChange={done}
    >
      <ul className="grid gap-1 text-sm">
        {stillValid.map((made) => (
          <li key={made.id}>
            <span className="font-medium">{made.name}</span> <span className="text-soft">{madeKinds[made.kind]}</span>
          </li>
        ))}
      </ul>
      <DialogActions>
        <Button look="primary" onClick={done}>
          Done
        </Button>
      </DialogActions>
    </Dialog>
  )
}
