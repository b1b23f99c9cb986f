// Who works in this workspace, and as what.
import { MailX, ShieldCheck } from 'lucide-react'
import { useState } from 'react'
import { ask, useChange, useForgetting, useRead } from '../api.ts'
import { useLooking, useMay } from '../session.tsx'
import type { Invitations, ListOf, Member } from '../shapes.ts'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Confirm, Dialog, DialogForm } from '../ui/dialog.tsx'
import { AddressField, Choice, FormMistake, mistakeIn, textIn } from '../ui/field.tsx'
import { Notice } from '../ui/notice.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Answered, Failed } from '../ui/states.tsx'
import { Table } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { shownOf, useKeysAndLogins } from './revocable.tsx'

const roles = [
  ['owner', 'Owner'],
  ['admin', 'Admin'],
  ['developer', 'Developer'],
  ['viewer', 'Viewer'],
] as const
const meanings =
  'An owner may do everything, an admin all but making owners; a developer sets up sending; a viewer looks.'

const roleNamed = (role: string | undefined) => roles.find(([value]) => value === role)?.[1] ?? ''

export function Members() {
  const query = useRead<ListOf<Member>>(['members'], '/api/v1/members')
  const invitations = useRead<Invitations>(['invitations'], '/api/v1/invitations')
  const mail = invitations.data?.mail
  const { session, workspace } = useLooking()
  const isOwner = workspace?.role === 'owner'
  const mayWrite = useMay('members.write')
  /** Only owners make, change and remove owners. */
  const mayChange = ({ role }: { readonly role: string }) => mayWrite && (isOwner || role !== 'owner')
  const givable = isOwner ? roles : roles.filter(([role]) => role !== 'owner')
  const [inviting, setInviting] = useState(false)
  const [removing, setRemoving] = useState<Member>()
  const [changing, setChanging] = useState<{ readonly member: Member; readonly role: string }>()
  const change = useChange(
    ({ member, role }: NonNullable<typeof changing>) => ask('PATCH', `/api/v1/members/${member.userId}`, { role }),
    ['members', 'session'],
    () => setChanging(undefined),
  )
  const remove = useChange(
    ({ userId }: Member) => ask('DELETE', `/api/v1/members/${userId}`),
    ['members'],
    () => setRemoving(undefined),
  )
  const invite = useChange(
    (given: { email: string; role: string }) => ask('POST', '/api/v1/invitations', given),
    ['invitations'],
    () => setInviting(false),
  )
  useForgetting(inviting, invite)
  const withdraw = useChange((id: string) => ask('DELETE', `/api/v1/invitations/${id}`), ['invitations'])
  return (
    <Page
      title="Members"
      about={meanings}
      actions={
        mayWrite && (
          <Button look="primary" onClick={() => setInviting(true)}>
            Invite
          </Button>
        )
      }
    >
      <FormMistake error={withdraw.error} />
      <Card flush>
        <Answered query={query}>
          {({ items }) => (
            <Table
              label="Members"
              rows={items}
              keyOf={({ userId }) => userId}
              columns={[
                {
                  head: 'Person',
                  cell: ({ email, name, twoFactor }) => (
                    <span className="grid">
                      <span className="flex items-center gap-2">
                        <span className="min-w-24 font-medium wrap-anywhere">{name ?? email}</span>
                        {twoFactor && (
                          <Badge tone="good" icon={ShieldCheck}>
                            Second factor
                          </Badge>
                        )}
                      </span>
                      {name !== undefined && <span className="text-xs wrap-anywhere text-soft">{email}</span>}
                    </span>
                  ),
                },
                {
                  head: 'Role',
                  cell: (member) =>
                    mayChange(member) ? (
                      <select
                        aria-label={`Role of ${member.email}`}
                        value={member.role}
                        // An arrow key chooses at once, so it asks before: nobody takes a role of their own back.
                        onChange={(event) => setChanging({ member, role: event.target.value })}
                        className="h-8 rounded-md border border-line bg-card px-2"
                      >
                        {givable.map(([value, words]) => (
                          <option key={value} value={value}>
                            {words}
                          </option>
                        ))}
                      </select>
                    ) : (
                      roleNamed(member.role)
                    ),
                },
                {
                  head: 'Last sign-in',
                  wideOnly: true,
                  cell: ({ lastSignInAt }) =>
                    lastSignInAt === undefined ? <span className="text-soft">Never</span> : <Time at={lastSignInAt} />,
                },
                {
                  head: '',
                  align: 'right',
                  cell: (member) =>
                    mayChange(member) &&
                    member.userId !== session.id && (
                      <Button look="quiet" of={member.email} onClick={() => setRemoving(member)}>
                        Remove
                      </Button>
                    ),
                },
              ]}
            />
          )}
        </Answered>
      </Card>
      {invitations.data === undefined && invitations.isError && (
        <Card title="Open invitations" flush>
          <Failed error={invitations.error} again={() => void invitations.refetch()} />
        </Card>
      )}
      {invitations.data !== undefined && invitations.data.items.length > 0 && (
        <Card title="Open invitations" flush>
          {mail !== undefined && mail.goes !== 'out' && (
            <div className="px-4 pb-4 sm:px-5">
              <NoMail mail={mail} />
            </div>
          )}
          <Table
            label="Open invitations"
            rows={invitations.data.items}
            keyOf={({ id }) => id}
            columns={[
              { head: 'Address', cell: ({ email }) => <span className="font-medium">{email}</span> },
              { head: 'Role', cell: ({ role }) => roleNamed(role) },
              { head: 'Ends', cell: ({ expiresAt }) => <Time at={expiresAt} /> },
              {
                head: '',
                align: 'right',
                cell: ({ id, email, role }) =>
                  mayChange({ role }) && (
                    <Button
                      look="quiet"
                      busy={withdraw.isPending && withdraw.variables === id}
                      onClick={() => withdraw.mutate(id)}
                      of={`the invitation of ${email}`}
                    >
                      Withdraw
                    </Button>
                  ),
              },
            ]}
          />
        </Card>
      )}
      <Dialog
        title="Invite somebody"
        description={
          mail === undefined || mail.goes === 'out'
            ? 'They get a mail with a link that is good for 7 days.'
            : 'The link of an invitation is good for 7 days.'
        }
        open={inviting}
        onOpenChange={setInviting}
      >
        <DialogForm
          action="Invite"
          by={invite}
          fields={['email', 'role']}
          onSubmit={(form) => invite.mutate({ email: textIn(form, 'email').trim(), role: textIn(form, 'role') })}
        >
          {mail !== undefined && mail.goes !== 'out' && <NoMail mail={mail} />}
          <AddressField label="E-mail" name="email" mistake={mistakeIn(invite.error, 'email')} />
          <Choice
            label="Role"
            name="role"
            options={givable}
            defaultValue="developer"
            hint={meanings}
            mistake={mistakeIn(invite.error, 'role')}
          />
        </DialogForm>
      </Dialog>
      <Confirm
        title={`Change the role to ${roleNamed(changing?.role)}?`}
        action="Change"
        of={changing}
        close={() => setChanging(undefined)}
        by={change}
        onConfirm={change.mutate}
      >
        {changing?.member.email} is {roleNamed(changing?.member.role)} now.
        {changing?.member.userId === session.id && ' That is you: somebody else must give it back.'}
      </Confirm>
      <Confirm
        title="Remove this member?"
        action="Remove"
        of={removing}
        close={() => setRemoving(undefined)}
        by={remove}
        onConfirm={remove.mutate}
      >
        {removing?.email} loses access to this workspace at once.
        {removing !== undefined && <WhatStays userId={removing.userId} />}
      </Confirm>
    </Page>
  )
}

/**
 * That an invitation does not reach anybody by itself, and the ways that are left. No link to copy: it proves the address of whoever comes by it
 * (docs/decisions/0069), so only its mail has it.
 */
function NoMail({ mail: { goes, workspaceId } }: { readonly mail: Invitations['mail'] }) {
  const { session } = useLooking()
  const sender = session.workspaces.find((each) => each.workspaceId === workspaceId)
  return (
    <Notice
      label="No mail"
      title={goes === 'sandbox' ? 'The mail does not reach them' : 'There is no mail'}
      icon={MailX}
      tone="warn"
    >
      {goes === 'sandbox' ? (
        <p>
          This installation’s own mail goes to the sandbox, and leaves this machine for nobody. An invitation lies in
          the sandbox inbox of{' '}
          {sender === undefined ? 'the workspace that sends such mail' : `the workspace “${sender.name}”`}
          {sender === undefined ? (
            '.'
          ) : (
            <>
              :{' '}
              <a
                href={`/sandbox?workspace=${sender.workspaceId}`}
                target="_blank"
                rel="noreferrer"
                className="text-accent underline"
              >
                open it in another tab
              </a>{' '}
              and give them the link.
            </>
          )}
        </p>
      ) : (
        <p>Nothing is set to send this installation’s own mail (POSTHORN_SYSTEM_MAILBOX).</p>
      )}
      <p>
        {session.operator ? 'Or make their login' : 'Ask whoever runs this Posthorn for the link, or to make the login'}{' '}
        on the machine:{' '}
        <code className="font-mono text-xs wrap-anywhere">posthorn user create --email … --workspace … --role …</code>
      </p>
    </Notice>
  )
}

/** Keys and logins belong to the workspace: whoever has read one still sends with it. */
function WhatStays({ userId }: { readonly userId: string }) {
  const theirs = useKeysAndLogins().filter(
    ({ createdBy, revokedAt }) => createdBy === `user:${userId}` && revokedAt === undefined,
  )
  return (
    <>
      <p className="mt-2">
        API keys and SMTP credentials stay good: revoke those that this person knows.
        {theirs.length > 0 && ' Made by this person:'}
      </p>
      <ul className="mt-1 list-disc pl-5">
        {theirs.map((each) => (
          <li key={each.id} className="wrap-anywhere text-ink">
            {each.name} <span className="text-soft">({shownOf(each)})</span>
          </li>
        ))}
      </ul>
    </>
  )
}
