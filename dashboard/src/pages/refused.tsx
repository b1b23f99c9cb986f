// What never became a message, and why: the same codes that the sender was told.
import { CircleSlash } from 'lucide-react'
import { PagedTable } from '../list.tsx'
import type { RefusedSubmission } from '../shapes.ts'
import { Card, Page } from '../ui/page.tsx'
import { Empty } from '../ui/states.tsx'
import { Time } from '../ui/time.tsx'

/** In words; a code that is not here speaks for itself. */
const reasons: Readonly<Record<string, string>> = {
  recipient_suppressed: 'The recipient is suppressed.',
  hourly_limit_reached: 'The plan’s limit for 60 minutes was reached.',
  daily_limit_reached: 'The plan’s limit for the day was reached.',
  monthly_limit_reached: 'The plan’s limit for the month was reached.',
  attachment_infected: 'The scanner found malware in a file, or could not examine it.',
  upgrade_required: 'The plan does not include sending.',
  workspace_blocked: 'The workspace is blocked.',
  mailbox_not_active: 'The mailbox does not exist, is disabled, or its domain is not verified.',
  insufficient_scope: 'The key may not send.',
  invalid_request: 'Something in the request was wrong.',
  invalid_json: 'The request was not JSON.',
  payload_too_large: 'The message was too large.',
  too_many_attachments: 'There were too many files.',
  attachments_too_large: 'The files were too large.',
  scanner_unavailable: 'The malware scanner could not be reached.',
  service_unavailable: 'The service could not take it at that moment.',
  idempotency_key_reused: 'The same Idempotency-Key came with another body.',
  idempotency_in_progress: 'The same Idempotency-Key was being worked on.',
  internal_error: 'Something is broken here; the log says what.',
}

export function Refused() {
  return (
    <Page
      title="Refused"
      about="What was handed in and refused, of the last 30 days. It never became a message, and the sender was told why."
    >
      <Card flush>
        <PagedTable<RefusedSubmission>
          name="refused"
          path="/api/v1/refused-submissions"
          label="Refused submissions"
          keyOf={({ id }) => id}
          refreshMs={4_000}
          columns={[
            {
              head: 'Why',
              cell: ({ code }) => (
                <span className="grid min-w-36">
                  <span className="font-medium">{reasons[code] ?? code}</span>
                  {reasons[code] !== undefined && <code className="font-mono text-xs text-soft">{code}</code>}
                </span>
              ),
            },
            { head: 'To a recipient at', cell: ({ recipientDomain }) => recipientDomain ?? '–' },
            { head: 'Over', cell: ({ source }) => (source === 'smtp' ? 'SMTP' : 'HTTP'), wideOnly: true },
            { head: 'When', cell: ({ at }) => <Time at={at} />, align: 'right' },
          ]}
          empty={<Empty icon={CircleSlash} title="Nothing was refused." />}
        />
      </Card>
    </Page>
  )
}
