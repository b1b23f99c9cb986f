// For operators: reports, or things like them, that changed no message, and why.
import { MailQuestionMark } from 'lucide-react'
import { useState } from 'react'
import { useRead } from '../api.ts'
import { PagedTable } from '../list.tsx'
import type { UnmatchedFeedback, UnmatchedFeedbackDetail } from '../shapes.ts'
import { Button } from '../ui/button.tsx'
import { Dialog, DialogActions } from '../ui/dialog.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Answered, Empty } from '../ui/states.tsx'
import { Time } from '../ui/time.tsx'
import { bytes } from '../ui/size.ts'

const reasons: Readonly<Record<string, string>> = {
  no_report: 'It is no report that can be read.',
  not_armed: 'Nothing was ever transmitted for that message.',
  unknown_message: 'It names no message of ours.',
  not_a_complaint: 'A bounce came where complaints come.',
  reporter_not_proven: 'A complaint without a valid signature of the reporter.',
  sender_not_null: 'A bounce with a sender: anybody may have written it.',
  other_route: 'A feed spoke about a message that did not go over its relay.',
}

export function OperatorFeedback() {
  const [shown, setShown] = useState<string>()
  return (
    <Page title="Unmatched feedback" about="Reports that changed no message, of the last 30 days, and why.">
      <Card flush>
        <PagedTable<UnmatchedFeedback>
          name="unmatched"
          path="/api/v1/operator/feedback"
          refreshMs={30_000}
          label="Unmatched feedback"
          keyOf={({ id }) => id}
          empty={<Empty icon={MailQuestionMark} title="All feedback found its message." />}
          columns={[
            {
              head: 'Why',
              leads: true,
              cell: ({ id, reason }) => (
                <button type="button" className="text-left font-medium hover:underline" onClick={() => setShown(id)}>
                  {reasons[reason] ?? reason}
                </button>
              ),
            },
            { head: 'By', cell: ({ source }) => source, wideOnly: true },
            {
              head: 'From',
              wideOnly: true,
              cell: ({ sender }) => <span className="block truncate text-soft">{sender === '' ? '<>' : sender}</span>,
            },
            { head: 'Size', cell: ({ sizeBytes }) => bytes(sizeBytes), align: 'right', wideOnly: true },
            { head: 'Came', cell: ({ receivedAt }) => <Time at={receivedAt} />, align: 'right' },
          ]}
        />
      </Card>
      {shown !== undefined && <Detail id={shown} done={() => setShown(undefined)} />}
    </Page>
  )
}

function Detail({ id, done }: { readonly id: string; readonly done: () => void }) {
  const query = useRead<UnmatchedFeedbackDetail>(['unmatched', id], `/api/v1/operator/feedback/${id}`)
  const text = 'max-h-64 overflow-auto rounded-lg bg-sunken p-3 font-mono text-xs break-words whitespace-pre-wrap'
  return (
    <Dialog title="Unmatched feedback" open onOpenChange={done}>
      <Answered query={query}>
        {({ facts, content, addressee }) => (
          <div className="grid gap-3">
            <p className="text-sm break-words">
              To <code className="font-mono text-xs break-all">{addressee}</code>
            </p>
            <h3 className="text-sm font-medium">What was read in it</h3>
            <pre tabIndex={0} className={text}>
              {JSON.stringify(facts, undefined, 2)}
            </pre>
            <h3 className="text-sm font-medium">As it came</h3>
            <pre tabIndex={0} className={text}>
              {content}
            </pre>
          </div>
        )}
      </Answered>
      <DialogActions>
        <Button look="primary" onClick={done}>
          Close
        </Button>
      </DialogActions>
    </Dialog>
  )
}
