// Messages as the dashboard shows them: pages, the whole story of one, and sending again what failed, or what nobody can know about.
import { Type } from 'typebox'
import { pairs } from '../values.ts'
import { DeliveryEvent, Message, SendMessageResponse } from '../message.ts'
import { rateLimits } from '../operation.ts'
import { deliveryStatuses, processingStatuses, webhookStates } from '../words.ts'
import { TimelinePost } from './webhooks.ts'
import { closed, email, endpointsOf, oneOf, page, paging, time, uuid } from './managed.ts'

const status = oneOf(processingStatuses, "The service's queue state.")
const deliveryStatus = oneOf(deliveryStatuses, 'What the receiving provider reported.')

export const MessageListItem = Type.Object(
  {
    id: uuid('The message.'),
    mailboxId: uuid('The sending mailbox.'),
    status,
    deliveryStatus,
    sender: email('The address of the mailbox.'),
    recipient: email('The recipient.'),
    subject: Type.String({ description: 'As submitted.' }),
    source: oneOf(['rest', 'smtp', 'notice'], 'How it was submitted; `notice`: written by Posthorn itself.'),
    errorMessage: Type.Optional(Type.String({ description: 'Why the last attempt did not succeed.' })),
    createdAt: time('When the message was accepted.'),
    finishedAt: Type.Optional(time('When its state became final.')),
  },
  { description: 'A message in a list.' },
)

export const TimelineWebhook = Type.Object(
  {
    state: Type.Enum(webhookStates, {
      type: 'string',
      description: 'As in the log of webhooks; `waiting`: for its first or next try.',
    }),
    nextAttemptAt: Type.Optional(time('When it is posted next.')),
    attempts: Type.Array(TimelinePost, {
      description: 'Every ended try, oldest first; at most 200 for a message, the newest.',
    }),
  },
  { description: 'What became of the webhook of an event.' },
)

export const TimelineEvent = Type.Object(
  {
    id: uuid('The event; the same as `Webhook-Id`.'),
    sequence: Type.Integer({ description: 'Counts per message from 1 without gaps.' }),
    type: Type.String({ description: 'As in webhooks.', examples: ['message.sent'] }),
    status,
    deliveryStatus,
    occurredAt: time('When.'),
    facts: Type.Optional(
      pairs(Type.Unknown(), {
        description:
          'Members of the webhook event of the same kind: `attempt`, `reason`, `nextAttemptAt`, `smtp`, `bounce`, ...',
      }),
    ),
    webhook: Type.Optional(TimelineWebhook),
  },
  { description: 'One change of a message.' },
)

export const TimelineAttempt = Type.Object(
  {
    epoch: Type.Integer({ description: 'Counts claims of the message.' }),
    outcome: Type.String({ description: '`sent`, `retrying`, `failed` or `delivery_unknown`.' }),
    endedAt: time('When it ended.'),
    facts: pairs(Type.Unknown(), {
      description: 'What was seen: host, address, TLS, the stage that was reached, and the SMTP dialogue.',
    }),
  },
  { description: 'One attempt to deliver, as its worker wrote it down.' },
)

export const MessageTimeline = Type.Object(
  {
    message: Message,
    processingStatus: status,
    deliveryStatus,
    events: Type.Array(TimelineEvent, { description: 'Every change, oldest first.' }),
    reports: Type.Array(DeliveryEvent, { description: "The provider's reports, oldest first." }),
    attempts: Type.Array(TimelineAttempt, { description: 'Every attempt that has ended, oldest first.' }),
    queue: Type.Optional(
      Type.Object(
        {
          status: Type.String(),
          destination: Type.String({ description: "The recipient's domain." }),
          dueAt: time('When the next attempt may begin.'),
          expiresAt: time('When trying ends.'),
          attempts: Type.Integer(),
          leaseUntil: Type.Optional(time('Until when a worker holds it.')),
          armed: Type.Boolean({ description: 'The final dot may have been written.' }),
          stopped: Type.Boolean({
            description:
              'Delivery is stopped on the whole installation: nothing new is tried until its operators let it go on.',
          }),
        },
        { description: 'Its place in the queue while it is not final.' },
      ),
    ),
    sandboxMailId: Type.Optional(
      uuid("The mail that it became, where the sandbox took it and still keeps it; read it in the sandbox's inbox."),
    ),
    sendAgainAt: Type.Optional(
      time(
        'From when on it can be sent again, where it failed or nobody can know its outcome: of the latter its delivery may still end by itself before. Left out where it was, where its content is not kept any more, and where a failed one came all the same, by the word of its provider.',
      ),
    ),
    sentAgainAs: Type.Optional(uuid('The message that was sent in its place.')),
    sentAgainFor: Type.Optional(uuid('The message in whose place this one was sent.')),
    sentAgainForStatus: Type.Optional(
      oneOf(
        processingStatuses,
        'Of that message, now: `failed` or `delivery_unknown`, or `sent` where late proof came that it had been. Left out where its record is not kept any more.',
      ),
    ),
  },
  { description: 'Everything that happened to a message.' },
)

export const MessageContent = Type.Object(
  {
    text: Type.String({ description: 'What a person reads of it; of a mail that has only HTML, the text of that.' }),
    html: Type.Boolean({ description: 'The mail has HTML: read it at `content/html`.' }),
    attachments: Type.Array(
      Type.Object({
        filename: Type.String({ description: 'As its sender called it.' }),
        contentType: Type.String(),
        sizeBytes: Type.Integer({ description: 'Decoded.' }),
      }),
      { description: 'The files it brings; at most 100.' },
    ),
    whole: Type.Boolean({ description: 'False where it is so large that only its beginning was looked at.' }),
  },
  { description: 'The content of a message while it is kept.' },
)

export const RefusedSubmission = Type.Object(
  {
    id: uuid('The refusal.'),
    at: time('When.'),
    source: oneOf(['rest', 'smtp'], 'How it was submitted.'),
    code: Type.String({ description: 'Why: a code of the errors.' }),
    sender: Type.Optional(
      Type.String({
        description:
          'Over SMTP, whom it was to come from: MAIL FROM, as it was written, `<>` where that was empty; or the From of the mail where that was refused.',
      }),
    ),
    recipientDomain: Type.Optional(Type.String({ description: "The recipient's domain, where it was known." })),
    field: Type.Optional(Type.String({ description: 'The member, header or parameter that was wrong.' })),
    error: Type.Optional(
      Type.String({
        description: 'The sentence that its sender was told, shortened where it is long, without addresses.',
      }),
    ),
    keyId: Type.Optional(uuid('The API key of the request.')),
    smtpCredentialId: Type.Optional(uuid('The SMTP credential of the session.')),
    requestId: Type.Optional(Type.String({ description: '`X-Request-Id` of the answer.' })),
  },
  { description: 'What was refused and never became a message.' },
)

const managed = endpointsOf('Messages')
export const mail = {
  listMessages: managed({
    endpoint: 'GET /api/v1/messages',
    operationId: 'listMessages',
    summary: 'List and search messages',
    description: [
      'Newest first, in pages whose speed does not depend on how deep they are.',
      '',
      'Without filters, between two times and for one `recipient` the list is read along an index. Each page of the other filters looks at up to 10,000 messages, of large metadata at fewer; it may then hold fewer items than asked for, or none, and `next` goes on behind them. Together with `recipient`, or with `from` and `to`, they look at what these leave: that is the quick way to something old.',
    ].join('\n'),
    scope: 'mail.read',
    query: closed({
      status: Type.Optional(status),
      deliveryStatus: Type.Optional(deliveryStatus),
      mailboxId: Type.Optional(uuid('Of one mailbox.')),
      recipient: Type.Optional(email('To exactly this address, in any case.')),
      text: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 1000,
          description:
            'Part of the subject or the recipient; or the whole of a value of the metadata, or of the id that the receiving server gave (also its reply, as somebody copied it); in any case.',
        }),
      ),
      providerMessageId: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 200,
          description: 'Exactly the id that the receiving server or relay gave.',
        }),
      ),
      metadataName: Type.Optional(
        Type.String({ minLength: 1, maxLength: 40, description: 'With `metadataValue`: only under this name.' }),
      ),
      metadataValue: Type.Optional(
        Type.String({ maxLength: 500, description: 'With exactly this value in its metadata.' }),
      ),
      from: Type.Optional(time('Accepted at this time or later.')),
      to: Type.Optional(time('Accepted before this time.')),
      ...paging,
    }),
    ok: [
      200,
      'A page of messages.',
      page(MessageListItem, 'Messages, newest first.', {
        lookedBackTo: Type.Optional(
          time('Beside `next`: what was accepted later has been looked at, and the pages that follow go on from here.'),
        ),
      }),
    ],
  }),
  listRefused: managed({
    endpoint: 'GET /api/v1/refused-submissions',
    operationId: 'listRefusedSubmissions',
    summary: 'List refused submissions',
    description:
      'What never became a message, of the last 30 days; of each hour the first 10,000. Each page of one code or source looks at up to 10,000; it may then hold fewer items than asked for, or none, and `next` goes on behind them.',
    scope: 'mail.read',
    query: closed({
      code: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: 'A code of the errors.' })),
      source: Type.Optional(oneOf(['rest', 'smtp'], 'How it was submitted.')),
      from: Type.Optional(time('Refused at this time or later.')),
      to: Type.Optional(time('Refused before this time.')),
      ...paging,
    }),
    ok: [200, 'A page of refusals, newest first.', page(RefusedSubmission, 'Refused submissions.')],
  }),
  readTimeline: managed({
    endpoint: 'GET /api/v1/messages/{messageId}/timeline',
    operationId: 'getMessageTimeline',
    summary: 'Read the whole story of a message',
    description:
      'Every change, every attempt with its SMTP dialogue, and every report of the receiving provider. With `webhooks.read` also what became of each event that was to be posted: `events[].webhook`, left out where nothing was posted and nothing waits. The beginning of an answer is in the log of webhooks.',
    scope: 'mail.read',
    ok: [200, 'The timeline.', MessageTimeline],
  }),
  readContent: managed({
    endpoint: 'GET /api/v1/messages/{messageId}/content',
    operationId: 'getMessageContent',
    summary: 'Read the content of a message',
    description: 'Text and files of what was submitted, as long as it is kept.',
    scope: 'mail.read',
    ok: [200, 'The content.', MessageContent],
    may: { 404: 'Not there, of another workspace, or its content has expired (`not_found`).' },
  }),
  readContentHtml: managed({
    endpoint: 'GET /api/v1/messages/{messageId}/content/html',
    operationId: 'getMessageContentHtml',
    summary: 'Look at the HTML of a message',
    description:
      'A page for a frame of the dashboard, under a Content-Security-Policy that lets nothing run and loads nothing from anywhere: pictures and styles of other hosts do not appear, and nobody hears that it was looked at.',
    scope: 'mail.read',
    query: closed({
      workspace: Type.Optional(uuid('In place of X-Posthorn-Workspace, which a frame cannot send.')),
    }),
    ok: [200, 'The page.', Type.String()],
    contentType: 'text/html',
    may: { 404: 'Not there, of another workspace, expired, or without HTML (`not_found`).' },
  }),
  sendAgain: managed({
    endpoint: 'POST /api/v1/messages/{messageId}/send-again',
    operationId: 'sendMessageAgain',
    summary: 'Send a failed or unknown message again, as a new one',
    description:
      'For a message that is `failed`, at once, or in `delivery_unknown`, 15 minutes after it became so: the same mail with a new id, quota charge and history, and without the `expiresAt` of the first. What came over SMTP goes out octet for octet as it was kept, with its own Message-ID, by which many mailboxes tell a second copy from a new mail. A failed one was surely not accepted; of an unknown one the recipient may get two. At most once for each message: a repeat answers the first result with `Idempotent-Replayed: true`. 409 says why it cannot be.',
    scope: 'mail.send',
    ok: [202, 'Accepted for asynchronous delivery.', SendMessageResponse],
    may: {
      400: 'The id is not a UUID (`invalid_request`), the mailbox is not active any more (`mailbox_not_active`), or malware (`attachment_infected`).',
      402: 'Workspace plan does not include active API sending (`upgrade_required`).',
      403: 'Lacks mail.send (`insufficient_scope`), workspace is blocked (`workspace_blocked`), or the request did not come from the dashboard (`cross_site_request`).',
      409: 'Neither failed nor unknown, failed and yet delivered by a report, too early, content expired (`conflict`), or under way (`idempotency_in_progress`).',
      422: 'Recipient is suppressed (`recipient_suppressed`).',
      429: 'Sending limit reached (`hourly_limit_reached`, `daily_limit_reached`, `monthly_limit_reached`).',
      503: 'The database or the malware scanner cannot be reached (`service_unavailable`, `scanner_unavailable`).',
    },
    headers: {
      202: ['Idempotent-Replayed'],
      400: rateLimits,
      409: ['Retry-After'],
      422: rateLimits,
      429: rateLimits,
      503: rateLimits,
    },
  }),
}
