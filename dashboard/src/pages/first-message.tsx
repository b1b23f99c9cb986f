// For somebody new: the first message in under a minute, with nothing but a copy and a paste.
import { ask, useChange } from '../api.ts'
import { useMay } from '../session.tsx'
import { NoSender, type Sender } from '../sender.tsx'
import type { ApiKeyCreated } from '../shapes.ts'
import { Button } from '../ui/button.tsx'
import { CopyLine, Snippets } from '../ui/copy.tsx'
import { FormMistake } from '../ui/field.tsx'
import { Card } from '../ui/page.tsx'

const recipient = 'delivered@simulator.posthorn.test'

export function FirstMessage({
  sender: { mailbox, waitsFor },
  stay,
}: {
  readonly sender: Sender
  /** A key was asked for, which is shown here alone. */
  readonly stay: () => void
}) {
  const mayMake = useMay('keys.write')
  const make = useChange(
    () =>
      ask<ApiKeyCreated>('POST', '/api/v1/keys', { name: 'First steps', scopes: ['mail.send', 'mail.status.read'] }),
    ['keys'],
  )
  const key = make.data?.key
  return (
    <Card
      title="Send your first message"
      about="It goes to a simulator inside Posthorn, so nothing leaves this machine. It appears below by itself."
    >
      <ol className="grid gap-5">
        <li className="grid gap-2">
          <p className="font-medium">1. A key for your program</p>
          {key !== undefined ? (
            <>
              <CopyLine text={key} secret />
              <p className="text-sm text-soft">Copy it now: it is shown this once. It is in the lines below already.</p>
            </>
          ) : mayMake ? (
            <div>
              <Button
                look="primary"
                busy={make.isPending}
                onClick={() => {
                  stay()
                  make.mutate(undefined)
                }}
              >
                Make a key
              </Button>
            </div>
          ) : (
            <p className="text-sm text-soft">Your role cannot make keys; an owner, an admin or a developer can.</p>
          )}
          <FormMistake error={make.error} />
        </li>
        <li className="grid gap-2">
          <p className="font-medium">2. Send</p>
          {mailbox === undefined ? (
            <NoSender waitsFor={waitsFor} />
          ) : (
            <SendSnippets apiKey={key ?? 'YOUR_KEY'} mailboxId={mailbox.id} />
          )}
        </li>
      </ol>
    </Card>
  )
}

/** Ways to send, to copy. */
export function SendSnippets({ apiKey, mailboxId }: { readonly apiKey: string; readonly mailboxId: string }) {
  const texts = { curl: curl(apiKey, mailboxId), Node: node(apiKey, mailboxId), Python: python(apiKey, mailboxId) }
  return <Snippets texts={texts} />
}

const url = () => `${location.origin}/api/v1/send`

const curl = (key: string, mailboxId: string) => `curl ${url()} \\
  -H 'Authorization: Bearer ${key}' \\
  -H 'Content-Type: application/json' \\
  -d '{
    "mailboxId": "${mailboxId}",
    "recipient": "${recipient}",
    "subject": "Hello",
    "bodyText": "It works."
  }'`

const node = (key: string, mailboxId: string) => `const response = await fetch('${url()}', {
  method: 'POST',
  headers: { Authorization: 'Bearer ${key}', 'Content-Type': 'application/json' },
  body: JSON.stringify({
    mailboxId: '${mailboxId}',
    recipient: '${recipient}',
    subject: 'Hello',
    bodyText: 'It works.',
  }),
})
console.log(response.status, await response.json())`

const python = (key: string, mailboxId: string) => `import json, urllib.error, urllib.request

request = urllib.request.Request(
    '${url()}',
    headers={'Authorization': 'Bearer ${key}', 'Content-Type': 'application/json'},
    data=json.dumps({
        'mailboxId': '${mailboxId}',
        'recipient': '${recipient}',
        'subject': 'Hello',
        'bodyText': 'It works.',
    }).encode(),
)
try:
    answer = urllib.request.urlopen(request)
except urllib.error.HTTPError as refused:
    answer = refused  # it says why
print(answer.status, json.load(answer))`
