// What API keys and SMTP credentials have in common: when one was last used, and taking it away, which nothing undoes.
import { useState, type ReactNode } from 'react'
import { ask, useChange } from '../api.ts'
import { useMay } from '../session.tsx'
import { StateBadge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Confirm } from '../ui/dialog.tsx'
import type { Column } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

interface Revocable {
  readonly id: string
  readonly name: string
  readonly createdAt: string
  readonly lastUsedAt?: string
  readonly expired?: boolean
  readonly revokedAt?: string
}

/** The last columns of a list of them, and the question before one is revoked. */
export function useRevoking<Item extends Revocable>(
  list: 'keys' | 'smtp-credentials',
  consequence: string,
): { readonly columns: readonly Column<Item>[]; readonly question: ReactNode } {
  const [revoking, setRevoking] = useState<Item>()
  const mayWrite = useMay(`${list}.write`)
  const revoke = useChange(
    ({ id }: Item) => ask('DELETE', `/api/v1/${list}/${id}`),
    [list],
    () => setRevoking(undefined),
  )
  return {
    columns: [
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
              {item.expired === true && <StateBadge state="expired" />}
              {mayWrite && (
                <Button look="quiet" onClick={() => setRevoking(item)}>
                  Revoke<span className="sr-only"> {item.name}</span>
                </Button>
              )}
            </span>
          ),
      },
    ],
    question: (
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
    ),
  }
}
