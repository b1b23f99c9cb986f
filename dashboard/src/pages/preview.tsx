// The mail itself: its text, the HTML as a reader would show it, and its files. HTML is looked at in a frame that may do nothing, from an address
// with a policy of its own: no script, no form, nothing loaded from anywhere.
import { Paperclip } from 'lucide-react'
import { useState } from 'react'
import { useRead, withQuery } from '../api.ts'
import { useWorkspace } from '../session.tsx'
import type { MessageContent } from '../shapes.ts'
import { Card } from '../ui/page.tsx'
import { Answered } from '../ui/states.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { bytes } from '../ui/size.ts'

export function Preview({ id }: { readonly id: string }) {
  const query = useRead<MessageContent>(['content', id], `/api/v1/messages/${id}/content`, {
    // It never changes while it is there.
    staleTime: Infinity,
  })
  const [form, setForm] = useState<'Text' | 'HTML'>('Text')
  return (
    <Card
      title="Mail"
      actions={
        query.data?.html === true && (
          <Tabs label="Shown as" names={['Text', 'HTML'] as const} chosen={form} choose={setForm} />
        )
      }
    >
      <Answered query={query}>
        {({ text, attachments, whole, html }) => (
          <div className="grid gap-3">
            {form === 'HTML' && html ? (
              <Framed path={`/api/v1/messages/${id}/content/html`} />
            ) : text === '' ? (
              <p className="text-sm text-soft">It has no text.</p>
            ) : (
              <pre tabIndex={0} className="max-h-96 overflow-auto font-sans text-sm break-words whitespace-pre-wrap">
                {text}
              </pre>
            )}
            {attachments.length > 0 && <Files of={attachments} />}
            {!whole && <p className="text-sm text-soft">This mail is large; what is shown is its beginning.</p>}
          </div>
        )}
      </Answered>
    </Card>
  )
}

/** The files of a mail. A name that turns its letters around would end as it does not (`exe.pdf`), so it may not. */
export function Files({ of }: { readonly of: MessageContent['attachments'] }) {
  return (
    <ul aria-label="Files" className="flex flex-wrap gap-2">
      {of.map(({ filename, sizeBytes, contentType }, index) => (
        // Names repeat, and the list never changes.
        // oxlint-disable-next-line react/no-array-index-key
        <li
          key={index}
          title={contentType}
          className="inline-flex max-w-full items-center gap-1.5 rounded-lg border border-line px-2.5 py-1 text-sm"
        >
          <Paperclip aria-hidden className="size-4 shrink-0 text-soft" />
          <span className="truncate">{filename.replaceAll(/[\u202A-\u202E\u2066-\u2069]/g, '\uFFFD')}</span>
          <span className="shrink-0 text-soft">{bytes(sizeBytes)}</span>
        </li>
      ))}
    </ul>
  )
}

/** Of an address that answers with a page for it, under a policy of its own. */
export function Framed({ path }: { readonly path: string }) {
  const { workspaceId } = useWorkspace()
  return (
    <>
      <iframe
        title="The mail as HTML"
        sandbox=""
        src={withQuery(path, { workspace: workspaceId })}
        className="h-112 w-full rounded-lg border border-line bg-white"
      />
      <p className="text-xs text-soft">
        Nothing in it runs, links lead nowhere, and pictures and styles of other hosts are not loaded: nobody hears that
        you looked.
      </p>
    </>
  )
}
