// The workspace itself: its name, and what it keeps of the mail.
import { ask, useChange, useRead } from '../api.ts'
import { useMay } from '../session.tsx'
import type { Workspace } from '../shapes.ts'
import { Badge } from '../ui/badge.tsx'
import { Id } from '../ui/copy.tsx'
import { Check, Form, mistakeIn, Save, TextField, textIn } from '../ui/field.tsx'
import { Card, Facts, Page } from '../ui/page.tsx'
import { Answered } from '../ui/states.tsx'
import { Time } from '../ui/time.tsx'

export function WorkspacePage() {
  const query = useRead<Workspace>(['workspace'], '/api/v1/workspace')
  return (
    <Page title="General" about="The workspace itself: its name, and what it keeps.">
      <Answered query={query}>
        {(workspace) => (
          <div className="grid items-start gap-6 lg:grid-cols-2">
            <Settings workspace={workspace} />
            <Card title="About it">
              <Facts
                rows={[
                  ['Id', <Id id={workspace.id} />],
                  ['Plan', workspace.plan],
                  ['Status', workspace.status === 'active' ? 'Active' : <Badge tone="bad">Blocked</Badge>],
                  ['Created', <Time at={workspace.createdAt} />],
                ]}
              />
            </Card>
          </div>
        )}
      </Answered>
    </Page>
  )
}

function Settings({ workspace: { name, keepsContent } }: { readonly workspace: Workspace }) {
  const mayWrite = useMay('workspace.write')
  const change = useChange(
    (given: Partial<Pick<Workspace, 'name' | 'keepsContent'>>) => ask('PATCH', '/api/v1/workspace', given),
    ['workspace', 'session'],
  )
  return (
    <Card title="Settings">
      <Form
        saves={change}
        onSubmit={(form) => {
          const given = { name: textIn(form, 'name'), keepsContent: form.has('keepsContent') }
          // What was not touched may be another's by now, and a name that is sent becomes the workspace's own.
          change.mutate({
            ...(given.name !== name && { name: given.name }),
            ...(given.keepsContent !== keepsContent && { keepsContent: given.keepsContent }),
          })
        }}
      >
        <TextField
          label="Name"
          name="name"
          required
          maxLength={200}
          defaultValue={name}
          readOnly={!mayWrite}
          mistake={mistakeIn(change.error, 'name')}
        />
        <Check
          name="keepsContent"
          label="Keep texts and attachments for a while"
          hint="Without it, both are dropped as soon as a message is final: nobody can read them here or send them again."
          defaultChecked={keepsContent}
          disabled={!mayWrite}
        />
        {mayWrite && <Save by={change} fields={['name']} />}
      </Form>
    </Card>
  )
}
