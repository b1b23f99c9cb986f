// Who did what.
import { ScrollText } from 'lucide-react'
import { PagedTable } from '../list.tsx'
import type { AuditEntry } from '../shapes.ts'
import { Card, Page } from '../ui/page.tsx'
import { Empty } from '../ui/states.tsx'
import { Long } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

export function Audit() {
  return (
    <Page title="Audit log" about="What people, keys and the operator’s commands have changed in this workspace.">
      <Card flush>
        <AuditTable name="audit" path="/api/v1/audit" />
      </Card>
    </Page>
  )
}

/** What was changed, for people who read no JSON: names and values, as far as a line can say them. */
function worded(facts: object): string {
  const value = (given: unknown): string => {
    if (typeof given === 'string') return given
    if (Array.isArray(given)) return given.map(value).join(', ')
    return given === null ? 'none' : JSON.stringify(given)
  }
  return Object.entries(facts)
    .map(([name, given]) => `${name}: ${value(given)}`)
    .join('; ')
}

export function AuditTable({ name, path }: { readonly name: string; readonly path: string }) {
  return (
    <PagedTable<AuditEntry>
      name={name}
      path={path}
      label="Audit log"
      keyOf={({ id }) => id}
      columns={[
        { head: 'What', cell: ({ action }) => <code className="font-mono text-xs">{action}</code> },
        {
          head: 'To what',
          wideOnly: true,
          cell: ({ target }) => <Long text={target ?? '–'} className="max-w-64" />,
        },
        {
          head: 'Who',
          wideOnly: true,
          cell: ({ actor, actorName }) => (
            <span title={actor} className="block max-w-56">
              <Long text={actorName ?? actor} />
            </span>
          ),
        },
        {
          head: 'Details',
          wideOnly: true,
          cell: ({ facts }) =>
            facts === undefined || facts === null ? null : (
              <Long text={worded(facts)} className="max-w-44 text-xs text-soft" />
            ),
        },
        { head: 'When', cell: ({ at }) => <Time at={at} />, align: 'right' },
      ]}
      empty={<Empty icon={ScrollText} title="Nothing was changed yet." />}
    />
  )
}
