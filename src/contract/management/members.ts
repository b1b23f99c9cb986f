// Members of the workspace, and invitations to it.
import { Type } from 'typebox'
import { closed, email, list, endpointsOf, oneOf, time, uuid } from './managed.ts'

export const role = oneOf(['owner', 'admin', 'developer', 'viewer'], 'What a member may do.')

export const Member = Type.Object(
  {
    userId: uuid('The person.'),
    email: email('Of the person.'),
    name: Type.Optional(Type.String()),
    role,
    twoFactor: Type.Boolean({ description: 'Has a second factor or a passkey.' }),
    createdAt: time('Member since.'),
    lastSignInAt: Type.Optional(time('Last sign-in.')),
  },
  { description: 'A member of the workspace.' },
)
export const Invitation = Type.Object(
  {
    id: uuid('The invitation.'),
    email: email('Who is invited.'),
    role,
    createdAt: time('When it was sent.'),
    expiresAt: time('When its link ends.'),
  },
  { description: 'An invitation that was neither accepted nor withdrawn.' },
)

const managed = endpointsOf('Members')
export const members = {
  listMembers: managed({
    endpoint: 'GET /api/v1/members',
    operationId: 'listMembers',
    summary: 'List the members',
    scope: 'members.read',
    ok: [200, 'All members, by address.', list(Member, 'Members.')],
  }),
  changeMember: managed({
    endpoint: 'PATCH /api/v1/members/{userId}',
    operationId: 'updateMember',
    summary: 'Give a member another role',
    description: 'Nobody gives a role that can do more than they can; only owners make, change and remove owners.',
    scope: 'members.write',
    body: closed({ role }),
    ok: [200, 'The member.', Member],
    may: { 409: 'The workspace would be left without an owner (`conflict`).' },
  }),
  removeMember: managed({
    endpoint: 'DELETE /api/v1/members/{userId}',
    operationId: 'removeMember',
    summary: 'Remove a member',
    scope: 'members.write',
    ok: [204, 'Removed.'],
    may: { 409: 'The workspace would be left without an owner (`conflict`).' },
  }),
  listInvitations: managed({
    endpoint: 'GET /api/v1/invitations',
    operationId: 'listInvitations',
    summary: 'List the open invitations',
    scope: 'members.read',
    ok: [
      200,
      'Open invitations, by address, and what becomes of their mails.',
      Type.Object(
        {
          items: Type.Array(Invitation),
          mail: Type.Object({
            goes: oneOf(
              ['out', 'sandbox', 'nowhere'],
              "Whether the mails of invitations leave the installation. `sandbox`: they lie in the sandbox's inbox of the workspace that sends the installation's mail; `nowhere`: none is set to send it (POSTHORN_SYSTEM_MAILBOX).",
            ),
            workspaceId: Type.Optional(
              uuid(
                'With `sandbox`, that workspace, where its members read them; told to operators, and to who asks in it.',
              ),
            ),
          }),
        },
        { description: 'Invitations.' },
      ),
    ],
  }),
  invite: managed({
    endpoint: 'POST /api/v1/invitations',
    operationId: 'createInvitation',
    summary: 'Invite somebody',
    description:
      'Mails a link that is good for 7 days. A second invitation of the same address takes the place of the first. Where its mail was not accepted, as to an address that is suppressed, the invitation is open and the answer says so (503): invite once more.',
    scope: 'members.write',
    body: closed({ email: email('Whom.'), role }),
    ok: [201, 'The invitation.', Invitation],
    may: {
      403: 'Lacks members.write, or the role can do more than the caller (`insufficient_scope`), workspace is blocked (`workspace_blocked`), or the request did not come from the dashboard (`cross_site_request`).',
      409: 'A member already, or too many open invitations (`conflict`).',
      429: 'Too many invitations in the last hour (`too_many_attempts`).',
    },
  }),
  withdrawInvitation: managed({
    endpoint: 'DELETE /api/v1/invitations/{invitationId}',
    operationId: 'withdrawInvitation',
    summary: 'Withdraw an invitation',
    scope: 'members.write',
    ok: [204, 'Withdrawn.'],
  }),
}
