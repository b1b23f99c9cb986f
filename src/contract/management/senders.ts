// Who sends: the workspace, its domains and its mailboxes.
import { Type } from 'typebox'
import { closed, email, list, endpointsOf, name, oneOf, time, uuid } from './managed.ts'

const dkimAlgorithm = oneOf(
  ['rsa-sha256', 'ed25519-sha256'],
  'Of the key: `rsa-sha256` where nothing is said, or `ed25519-sha256` (RFC 8463), which signs beside it.',
)

const DnsRecord = Type.Object({
  purpose: oneOf(
    ['ownership', 'dkim', 'dkim_ed25519', 'return_path', 'dmarc'],
    'What it is for. The domain sends when `ownership` and `dkim` are there. `dkim_ed25519` is that of an optional Ed25519 key: where it is not there, mail is signed with RSA alone.',
  ),
  type: oneOf(['TXT', 'CNAME', 'MX'], 'The type of the record.'),
  name: Type.String({ description: 'Where to set it.', examples: ['_posthorn.example.org'] }),
  value: Type.String({ description: 'What to set.' }),
  status: oneOf(
    ['pending', 'verified', 'wrong', 'advised', 'retiring'],
    '`pending`: not seen yet; `wrong`: something else stands there; `advised`: worth having, but nothing waits for it; `retiring`: of a DKIM key that signs only what was accepted before it was replaced or ended.',
  ),
  found: Type.Optional(
    Type.Array(Type.String(), { description: 'What stands there instead, cut to 300 characters each.' }),
  ),
  finding: Type.Optional(Type.String({ description: 'What that means and what to do, in plain words.' })),
  waitsFor: Type.Optional(
    oneOf(
      ['hostname'],
      'It is not to be set yet, and not in `zoneFile`: `hostname` means that POSTHORN_HOSTNAME, which is in its value, has no name yet that others can find.',
    ),
  ),
})

export const Domain = Type.Object(
  {
    id: uuid('The domain.'),
    name: Type.String({ description: 'In A-labels.', examples: ['example.org'] }),
    status: oneOf(
      ['pending', 'verified', 'degraded', 'failed'],
      'Whether its records were found. A `degraded` domain broke, and still sends for 72 hours; then it is `failed`.',
    ),
    createdAt: time('When it was added.'),
    verifiedAt: Type.Optional(time('When its records were first found.')),
    vouched: Type.Boolean({ description: "Verified by an operator's word: checks change nothing." }),
    brokenSince: Type.Optional(time('Since when its records are broken.')),
    checkedAt: Type.Optional(time('When its records were last looked at.')),
    nextCheckAt: Type.Optional(time('When they are looked at next by themselves.')),
    returnPathHost: Type.Optional(
      Type.String({ description: "Where bounces come back to; left out: to the installation's own host." }),
    ),
    records: Type.Array(DnsRecord, { description: 'The DNS records to set.' }),
    zoneFile: Type.String({ description: 'Those that are still to set, as lines of a zone file.' }),
    advice: Type.Array(Type.String(), { description: 'What else was seen, and is worth knowing.' }),
  },
  { description: 'A domain that the workspace sends from.' },
)

export const Mailbox = Type.Object(
  {
    id: uuid('The mailbox: `mailboxId` of send.'),
    address: email('The sender.'),
    name: Type.Optional(Type.String({ description: 'The display name that recipients see.' })),
    status: oneOf(['active', 'disabled'], 'A disabled mailbox does not send.'),
    domain: Type.String({ description: 'Its domain.' }),
    createdAt: time('When it was added.'),
  },
  { description: 'An address that the workspace sends from.' },
)

export const Workspace = Type.Object(
  {
    id: uuid('`organizationId` of messages.'),
    name: Type.String(),
    status: oneOf(['active', 'blocked'], 'A blocked workspace can read, but not send.'),
    plan: Type.String({ description: 'The name of its plan.' }),
    keepsContent: Type.Boolean({ description: 'Content is kept for a while after a message is final.' }),
    createdAt: time('When it was made.'),
  },
  { description: 'The workspace of the key, or the one that the session works in.' },
)

const ofWorkspace = endpointsOf('Workspace')
const ofDomains = endpointsOf('Domains')
const ofMailboxes = endpointsOf('Mailboxes')
export const senders = {
  readWorkspace: ofWorkspace({
    endpoint: 'GET /api/v1/workspace',
    operationId: 'getWorkspace',
    summary: 'Read the workspace',
    scope: 'workspace.read',
    ok: [200, 'The workspace.', Workspace],
  }),
  changeWorkspace: ofWorkspace({
    endpoint: 'PATCH /api/v1/workspace',
    operationId: 'updateWorkspace',
    summary: 'Change the workspace',
    scope: 'workspace.write',
    body: closed({
      name: Type.Optional(name('What its members call it. Others may call theirs the same.')),
      keepsContent: Type.Optional(Type.Boolean({ description: 'False: drop content as soon as a message is final.' })),
    }),
    ok: [200, 'The workspace.', Workspace],
  }),
  listDomains: ofDomains({
    endpoint: 'GET /api/v1/domains',
    operationId: 'listDomains',
    summary: 'List the domains with their DNS records',
    scope: 'domains.read',
    ok: [200, 'All domains, by name.', list(Domain, 'Domains.')],
  }),
  addDomain: ofDomains({
    endpoint: 'POST /api/v1/domains',
    operationId: 'addDomain',
    summary: 'Add a domain',
    description:
      'Makes a DKIM key and says which DNS records to set. The domain sends once they are found. No other workspace or installation has a key with the same selector: its record stands beside theirs.',
    scope: 'domains.write',
    body: closed({
      name: Type.String({
        minLength: 1,
        maxLength: 253,
        description: 'Such as example.org.',
        examples: ['example.org'],
      }),
    }),
    ok: [201, 'The domain, with the records to set.', Domain],
    may: { 409: 'The workspace has it already (`conflict`).' },
  }),
  readDomain: ofDomains({
    endpoint: 'GET /api/v1/domains/{domainId}',
    operationId: 'getDomain',
    summary: 'Read a domain with its DNS records',
    scope: 'domains.read',
    ok: [200, 'The domain.', Domain],
  }),
  checkDomain: ofDomains({
    endpoint: 'POST /api/v1/domains/{domainId}/check',
    operationId: 'checkDomain',
    summary: 'Look at the DNS records of a domain now',
    description:
      "Asks the name servers of the domain's own zone. Domains are also checked by themselves: pending ones often at first, verified ones every six hours.",
    scope: 'domains.write',
    ok: [200, 'The domain, with what was found.', Domain],
  }),
  rotateDkim: ofDomains({
    endpoint: 'POST /api/v1/domains/{domainId}/dkim/rotate',
    operationId: 'rotateDkim',
    summary: 'Make a new DKIM key',
    description:
      'Adds a key with a selector of its own (such as `ph202611-k7q2`), whose record is to be set beside the first. When a check has seen the record it signs what is accepted from two minutes later on; the old record must stay for a week after that. A key that waits already is shown again. With `algorithm=ed25519-sha256` it is a key beside the RSA one: mail then has two signatures. Each algorithm has its own keys, and a new one replaces only the one of its algorithm.',
    scope: 'domains.write',
    query: closed({ algorithm: Type.Optional(dkimAlgorithm) }),
    ok: [200, 'The domain, with the record to set.', Domain],
  }),
  endEd25519: ofDomains({
    endpoint: 'DELETE /api/v1/domains/{domainId}/dkim/ed25519',
    operationId: 'endEd25519',
    summary: 'Sign with RSA alone again',
    description:
      'Ends the Ed25519 DKIM key of a domain. One that waits for its record is gone at once; one that signs does so for what was accepted until now (and two minutes from now), and its record must stay for a week.',
    scope: 'domains.write',
    ok: [200, 'The domain.', Domain],
  }),
  removeDomain: ofDomains({
    endpoint: 'DELETE /api/v1/domains/{domainId}',
    operationId: 'removeDomain',
    summary: 'Remove a domain that has no mailboxes',
    scope: 'domains.write',
    ok: [204, 'Removed.'],
    may: { 409: 'It has mailboxes (`conflict`).' },
  }),
  listMailboxes: ofMailboxes({
    endpoint: 'GET /api/v1/mailboxes',
    operationId: 'listMailboxes',
    summary: 'List the mailboxes',
    scope: 'mailboxes.read',
    ok: [200, 'All mailboxes, by address.', list(Mailbox, 'Mailboxes.')],
  }),
  addMailbox: ofMailboxes({
    endpoint: 'POST /api/v1/mailboxes',
    operationId: 'addMailbox',
    summary: 'Add a mailbox on a domain of the workspace',
    scope: 'mailboxes.write',
    body: closed({
      address: email('The address to send from.'),
      name: Type.Optional(name('The display name that recipients see.')),
    }),
    ok: [201, 'The mailbox.', Mailbox],
    may: { 409: 'The workspace has it already (`conflict`).' },
  }),
  readMailbox: ofMailboxes({
    endpoint: 'GET /api/v1/mailboxes/{mailboxId}',
    operationId: 'getMailbox',
    summary: 'Read a mailbox',
    scope: 'mailboxes.read',
    ok: [200, 'The mailbox.', Mailbox],
  }),
  changeMailbox: ofMailboxes({
    endpoint: 'PATCH /api/v1/mailboxes/{mailboxId}',
    operationId: 'updateMailbox',
    summary: 'Change, disable or enable a mailbox',
    description: 'Messages that wait for delivery from a disabled mailbox fail.',
    scope: 'mailboxes.write',
    body: closed({
      status: Type.Optional(oneOf(['active', 'disabled'], 'A disabled mailbox does not send.')),
      name: Type.Optional(
        Type.String({ maxLength: 200, description: 'The display name; an empty one takes it away.' }),
      ),
    }),
    ok: [200, 'The mailbox.', Mailbox],
  }),
  removeMailbox: ofMailboxes({
    endpoint: 'DELETE /api/v1/mailboxes/{mailboxId}',
    operationId: 'removeMailbox',
    summary: 'Remove a mailbox',
    description:
      'Sends from it are refused, and messages that wait for delivery from it fail. What was sent stays readable, with its events and later reports. The address may be added again, with a new id.',
    scope: 'mailboxes.write',
    ok: [204, 'Removed.'],
    may: { 409: 'The installation sends its own mail from it (`conflict`).' },
  }),
}
