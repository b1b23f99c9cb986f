import { describe, expect, test } from 'vitest'
import { heldAtOnce, limits } from './limits.ts'

const mebibyte = 1024 * 1024

test.each([128, 512, 1024, 1536, 2048, 24 * 1024])(
  'with %d MB of memory one message finds room everywhere, one workspace leaves some to others, and all of it fits in',
  (memory) => {
    const held = heldAtOnce(memory * mebibyte)
    expect(held.largeRequestsOfWorkspaceBytesMax).toBeGreaterThanOrEqual(limits.requestBytesMax)
    expect(held.submissionContentOfWorkspaceBytesMax).toBeGreaterThanOrEqual(limits.smtpMessageBytesMax)
    expect(held.feedbackContentInFlightBytesMax).toBeGreaterThanOrEqual(limits.feedbackBytesMax)
    expect(held.largeRequestsOfWorkspaceBytesMax).toBeLessThan(held.largeRequestsBytesMax)
    expect(held.submissionContentOfWorkspaceBytesMax).toBeLessThan(held.smtpContentInFlightBytesMax)
    expect(held.contentOfWorkspaceBytesMax).toBeLessThan(held.contentInFlightBytesMax)
    expect(held.convertedOfWorkspaceBytesMax).toBeLessThan(held.convertedInFlightBytesMax)
    const whole = heldAtOnce(Infinity)
    for (const [name, bytes] of Object.entries(held))
      expect(bytes).toBeLessThanOrEqual(whole[name as keyof typeof whole])
    if (memory >= 2048) expect(held).toEqual(whole)
  },
)

test.each([1024, 1280, 1536])(
  'with %d MB of memory all that can be held at once leaves room for those who hold it',
  (memory) => {
    const held = heldAtOnce(memory * mebibyte)
    // Submission, sandbox and feedback have a room each; callers and strangers another.
    const most =
      held.largeRequestsBytesMax +
      2 * held.slowRequestsBytesMax +
      held.unreadAnswersBytesMax +
      2 * held.smtpContentInFlightBytesMax +
      held.feedbackContentInFlightBytesMax +
      held.contentInFlightBytesMax +
      held.convertedInFlightBytesMax
    expect(most / mebibyte).toBeLessThan((memory - 640) * 0.9)
  },
)

test('below 1 GB large mails are delivered one at a time, whoever they are of', () => {
  const { contentInFlightBytesMax, contentOfWorkspaceBytesMax } = heldAtOnce(512 * mebibyte)
  const large = Math.min(limits.attachmentsBytesMax, contentOfWorkspaceBytesMax) // as it counts (src/deliver/room.ts)
  expect(2 * large).toBeGreaterThan(contentInFlightBytesMax)
})

describe('what is promised in numbers', () => {
  const [second, minute, hour, day] = [1_000, 60_000, 3600_000, 86_400_000] as const
  const promised = {
    // The specification 2.1, decisions D
    attachmentsMax: 10,
    attachmentsBytesMax: 20 * mebibyte,
    bodyTextBytesMax: 5 * mebibyte,
    subjectCodePointsMax: 998,
    filenameBytesMax: 255,
    addressOctetsMax: 254,
    localPartOctetsMax: 64,
    metadataPairsMax: 20,
    metadataKeyCharactersMax: 40,
    metadataValueCharactersMax: 500,
    expiresAheadMsMax: 7 * day,
    idempotencyKeyCharactersMax: 255,
    idempotencyWaitMs: 5 * second,
    requestBytesMax: 48 * mebibyte,
    // Decisions B, RFC 5321 4.5.3.2
    smtpConnectMs: 30 * second,
    smtpCommandMs: 5 * minute,
    smtpDataMs: 2 * minute,
    smtpBlockMs: 3 * minute,
    smtpEodMs: 10 * minute,
    retryJitter: 0.1,
    // Delivery semantics 9
    submissionAnswerMs: 30 * second,
    repeatKeptMs: hour,
    datedRepeatKeptMs: 6 * day,
    // Decisions G
    webhookScheduleSeconds: [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000],
    webhookJitter: 0.2,
    webhookPostMs: 15 * second,
    webhookExcerptBytesMax: 1_024,
    webhookFailingMs: 120 * hour,
    webhookPreviousSecretMs: day,
    // Decisions H: a revocation counts within a second
    domainDegradedMsMax: 72 * hour,
    principalCacheMs: 900,
    refusalsKeptMs: 30 * day,
    // docs/delivery.md
    messageAgeMsMax: 26 * hour,
    sendAgainGraceSeconds: 900,
    unmatchedFeedbackMs: 30 * day,
    // docs/people.md
    passwordResetMs: hour,
    codeGuessesMax: 10,
    recoveryCodes: 10,
  } satisfies Partial<Record<keyof typeof limits, unknown>>

  test.each(Object.entries(promised))('%s is %j', (name, value) => {
    expect(limits[name as keyof typeof promised]).toEqual(value)
  })
})
