// The documents for users say what the code does: their lists are the code's own, and a number that has a limit behind it is that limit.
import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { fullFormats } from 'ajv-formats/dist/formats.js'
import { describe, expect, test } from 'vitest'
import { limits, readSettings } from './config.ts'
import { WebhookEvent } from './contract/webhook-event.ts'
import { webhookEventTypes } from './contract/words.ts'
import { failReasons, retryReasons, unknownReasons } from './domain/attempt.ts'
import { causeOfStop } from './domain/delivery-stop.ts'
import { deliveryStatuses, messageStatuses } from './domain/message.ts'
import { memberRoles } from './domain/scopes.ts'
import { heldAtOnce } from './limits.ts'
import { welcome } from './welcome.ts'

const page = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
/** As somebody reads it: where a line ends says nothing. */
const read = (path: string): string => page(path).replace(/\s+/g, ' ')

/** What the table behind these words names in its first column, between grave accents, below its head. */
function namedIn(path: string, words: string): string[] {
  const [, behind = ''] = page(path).split(words)
  const [, table = ''] = /^\|-.*\n((?:\|.*\n)+)/m.exec(behind) ?? []
  return table
    .split('\n')
    .flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`([\w.]+)`/g)].map(([, name = '']) => name))
}

describe('the lists', () => {
  const lists: readonly [path: string, words: string, names: readonly string[]][] = [
    ['docs/delivery.md', '## Processing states', messageStatuses],
    ['docs/delivery.md', '`message.retrying`):', retryReasons],
    ['docs/delivery.md', 'And of `message.failed`:', failReasons],
    ['docs/delivery.md', '## Delivery states', deliveryStatuses],
    ['docs/webhooks.md', 'are strangers', Object.keys(webhookEventTypes)],
    ['docs/people.md', '## Roles', memberRoles],
  ]
  test.each(lists)('%s, %s', (path, words, names) => {
    expect(namedIn(path, words).toSorted()).toEqual(names.toSorted())
  })

  test('docs/delivery.md: the reasons of what nobody knows', () => {
    const [, said = ''] = /`reason` says which: (.*?) after a restore\./.exec(read('docs/delivery.md')) ?? []
    expect([...said.matchAll(/`(\w+)`/g)].map(([, name]) => name)).toEqual([...unknownReasons])
  })

  test('docs/restore.md: the reasons for which delivery is stopped are known to whoever tells them', () => {
    const reasons = namedIn('docs/restore.md', '## How it is noticed')
    expect(reasons.length).toBe(5)
    expect(reasons.filter((reason) => causeOfStop(reason) === undefined)).toEqual([])
  })
})

describe('the numbers', () => {
  const [second, minute, hour, day, mebibyte] = [1_000, 60_000, 3600_000, 86_400_000, 1024 * 1024] as const
  const many = (count: number): string => count.toLocaleString('en-US')
  const [roomy, small] = [heldAtOnce(Infinity), heldAtOnce(0)]
  const numbers: readonly [path: string, words: string][] = [
    ['README.md', `waits up to ${limits.shutdownMs / second} seconds for the replies`],
    ['README.md', `that hangs may take ${(limits.postgresStopMs + limits.postgresKillMs) / second} more`],
    ['docs/delivery.md', `${limits.messageAgeMsMax / hour} hours end it in any case`],
    ['docs/delivery.md', `more than ${limits.suppressionsAskedMany} recipients a second`],
    [
      'docs/delivery.md',
      `${limits.smtpConnectMs / second} seconds to connect, ${limits.smtpCommandMs / minute} minutes for a reply to a command, ${limits.smtpDataMs / minute} for DATA, ${limits.smtpBlockMs / minute} for a block of content, ${limits.smtpEodMs / minute} for the reply to the final dot`,
    ],
    [
      'docs/delivery.md',
      `${limits.connectionsPerDestinationMax} connections at once (${limits.connectionsPerRelayMax} to a relay) and ${limits.messagesPerConnectionMax} messages over each`,
    ],
    ['docs/delivery.md', `within ${limits.destinationLimitsReadMs / second} seconds`],
    ['docs/delivery.md', `${limits.warmUpFirstDay} messages on the first day`],
    [
      'docs/delivery.md',
      `1 second at first, then ${limits.pauseStepsMs
        .slice(1, -1)
        .map((ms) => ms / second)
        .join(', ')} and ${(limits.pauseStepsMs.at(-1) ?? 0) / second} with each time`,
    ],
    ['docs/delivery.md', `has said nothing for ${limits.contentPatienceMs / second} seconds`],
    [
      'docs/delivery.md',
      `in line for ${limits.connectionLineMs / second} seconds, and then goes back for ${limits.gaveWayMs / second} without`,
    ],
    ['docs/delivery.md', `kept for ${limits.unmatchedFeedbackMs / day} days`],
    ['docs/delivery.md', `more than ${many(limits.suppressionsPerWorkspaceMax)} in a workspace`],
    ['docs/delivery.md', `Wait ${limits.sendAgainGraceSeconds / 60} minutes first`],
    ['docs/domains.md', `${limits.domainDegradedMsMax / hour} hours`],
    [
      'docs/domains.md',
      `verified ones every ${limits.domainVerifiedMs / hour} hours, degraded ones every ${limits.domainDegradedMs / minute} minutes`,
    ],
    [
      'docs/errors.md',
      `${limits.requestBytesMax / mebibyte} MiB for a message (${limits.smtpMessageBytesMax / mebibyte} MiB over SMTP), ${limits.suppressionRequestBytesMax / mebibyte} MiB for a list of suppressions, ${limits.feedBytesMax / mebibyte} MiB for a provider's feed, else ${limits.managementRequestBytesMax / 1024} KiB`,
    ],
    ['docs/errors.md', `at most ${many(limits.jsonOutsideStringsMax)} characters outside its strings`],
    ['docs/errors.md', `no whole verdict in ${limits.scanMs / second} seconds`],
    ['docs/errors.md', `idle for ${limits.sessionIdleMs / day} days, older than ${limits.sessionMs / day} days`],
    [
      'docs/feeds.md',
      `At most ${many(limits.feedEventsMax)} events and ${limits.feedBytesMax / mebibyte} MiB a request`,
    ],
    ['docs/people.md', `after about ${limits.accountGuessesMax} in a row`],
    ['docs/people.md', `looks at ${many(limits.messagesScannedMax)} messages for each page`],
    ['docs/people.md', `are kept for ${readSettings({}).POSTHORN_KEEP_AUDIT_DAYS} days`],
    ['docs/production.md', `${many(limits.httpConnectionsPerAddressMax)} requests under way`],
    ['docs/production.md', `kept for ${limits.keepAliveMs / second} seconds`],
    [
      'docs/production.md',
      `${limits.smtpSessionsPerAddressMax} at once, or ${many(limits.submissionSessionsPerLoopbackMax)} where it runs on this machine`,
    ],
    ['docs/production.md', `Mail of ${limits.mailWithoutMemoryBytes / mebibyte} MB at once always finds room`],
    ['docs/production.md', `Below ${limits.doctorMemoryBytesLow / 1e6} MB each start`],
    ['docs/production.md', `with up to ${limits.doctorRelaysVisited} relays`],
    [
      'docs/production.md',
      `with the first ${limits.unmatchedContentBytesMax / 1024} KB of its mail | ${limits.unmatchedFeedbackMs / day} days, the newest ${many(limits.unmatchedFeedbackMax)}`,
    ],
    [
      'docs/production.md',
      `${many(limits.sandboxInboxMax)} newer ones, or ${limits.sandboxInboxBytesMax / mebibyte / 1024} GB of them`,
    ],
    ['docs/production.md', `without addresses | ${limits.refusalsKeptMs / day} days |`],
    ['docs/programs.md', `for ${limits.datedRepeatKeptMs / day === 6 ? 'six' : '?'} days`],
    [
      'docs/programs.md',
      `at most ${limits.smtpMessageBytesMax / mebibyte} MiB, with at most ${limits.attachmentsMax} attachments of ${limits.attachmentsBytesMax / mebibyte} MB together`,
    ],
    ['docs/programs.md', `the ${limits.smtpRecipientsMax + 1}st`],
    ['docs/programs.md', `at most ${limits.mailLineOctetsMax} octets`],
    ['docs/restore.md', `The journal holds ${limits.journalBytesMax / mebibyte} MB;`],
    ['docs/restore.md', `until it was not seen for ${limits.nodeForgottenMs / day} days`],
    ['docs/scanning.md', `files inside files, of one message | ${many(limits.scanEntriesMax)}`],
    ['docs/scanning.md', `depth | ${limits.scanDepthMax} |`],
    ['docs/scanning.md', `one file, unpacked | ${limits.scanEntryBytesMax / mebibyte} MiB`],
    ['docs/scanning.md', `all of a message, unpacked | ${limits.scanBytesMax / mebibyte} MiB`],
    ['docs/scanning.md', `ratio, above ${limits.scanRatioFreeBytes / mebibyte} MiB | ${limits.scanRatioMax} to 1`],
    ['docs/scanning.md', `encoded parts of one mail, with an engine | ${limits.scanLeavesMax}`],
    [
      'docs/scanning.md',
      `parts of one mail over SMTP, and their depth | ${many(limits.mimePartsMax)}, ${limits.mimeDepthMax}`,
    ],
    ['docs/scanning.md', `more than ${limits.examineMs / second} of them`],
    ['docs/scanning.md', `more than ${limits.doctorSignaturesDays} days old`],
    [
      'docs/scanning.md',
      `Bodies above ${limits.largeRequestBytes / 1024} KB take room from ${roomy.largeRequestsBytesMax / mebibyte} MiB that all requests of a process share, ${roomy.largeRequestsOfWorkspaceBytesMax / mebibyte} MiB at most for one workspace (${small.largeRequestsBytesMax / mebibyte} and ${small.largeRequestsOfWorkspaceBytesMax / mebibyte} MiB`,
    ],
    ['docs/scanning.md', `waits up to ${limits.largeRequestWaitMs / second} seconds`],
    ['docs/webhooks.md', `within ${limits.webhookPostMs / second} seconds`],
    ['docs/webhooks.md', `Up to ${limits.webhookShareMax} events are posted to you at a time`],
    [
      'docs/webhooks.md',
      `or ${limits.webhookRestSeconds} seconds, and ${limits.webhookRestMsMax / minute} minutes at most`,
    ],
    ['docs/webhooks.md', `within ${limits.webhookAnswerBytesMax / mebibyte} MB; the log keeps its first KB`],
    ['docs/webhooks.md', `nothing succeeds for ${limits.webhookFailingMs / hour} hours`],
    ['docs/webhooks.md', `for ${limits.webhookPreviousSecretMs / hour} hours the old one's signature`],
  ]
  test.each(numbers)('%s: %s', (path, words) => expect(read(path)).toContain(words))
})

test('docs/webhooks.md: what arrives is an event of the document, with no other members, posted when it happened', () => {
  const [, headers = '', event = ''] =
    /```\n(POST [^]*?)```\n\n```json\n([^]*?)```/.exec(page('docs/webhooks.md')) ?? []
  const closed = JSON.parse(JSON.stringify(WebhookEvent), (name, value: unknown) => {
    if (name === 'additionalProperties') return value === true ? false : value
    return typeof value === 'object' && value !== null && 'properties' in value
      ? { additionalProperties: false, ...value }
      : value
  }) as object
  const fits = new Ajv2020({ strict: false, formats: fullFormats }).compile(closed)
  fits(JSON.parse(event))
  expect(fits.errors ?? []).toEqual([])
  const { id, createdAt } = JSON.parse(event) as { readonly id: string; readonly createdAt: string }
  expect(headers).toContain(`Webhook-Id: ${id}\nWebhook-Timestamp: ${Date.parse(createdAt) / 1000}\n`)
})

test('README: what the first start prints', () => {
  const [, shown = ''] = /```\n( {2}API {8}[^]*?)posthorn ready (\S+)\n```/.exec(page('README.md')) ?? []
  const mailboxId = '01a1fc4d-d8b6-70af-9ab4-ca6d66d46628'
  const workspace = {
    name: 'My workspace',
    key: 'ph_EXAMPLE',
    mailboxId,
    sender: 'hello@mail.example',
    smtp: { username: 'smtp-EXAMPLE', password: 'EXAMPLE' },
  }
  const login = { email: 'owner@posthorn.localhost', password: 'EXAMPLE' }
  const [, scanner = ''] = /^ {2}Scanner {4}(.*)$/m.exec(shown) ?? []
  expect(welcome(readSettings({}), workspace, login, 'My workspace', scanner)).toBe(`\n${shown}`)
})
