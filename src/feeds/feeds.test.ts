// Each provider's feed from its documented samples, signatures included; and what a forger, a repeater and a stranger get.
import { execFileSync } from 'node:child_process'
import { createHmac, createSign, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { certificateFor } from '../../test/world/certificates.ts'
import { silentLog } from '../base/log.ts'
import { makeVault } from '../base/secret.ts'
import { limits } from '../config.ts'
import { classify } from '../domain/bounce-rules.ts'
import type { ProviderReport } from '../domain/provider-report.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { makeAwsFetch, type AwsFetch } from './aws-fetch.ts'
import { addFeed, listFeeds, makeFeeds, removeFeed, type FeedAnswer } from './feeds.ts'
import type { FeedRequest } from './feed-request.ts'
import type { FeedWish } from './registry.ts'
import { topicHost } from './ses.ts'

const vault = makeVault('k'.repeat(32))
const publicUrl = 'https://mail.example.org'
let now = new Date('2026-11-21T05:00:00Z')
let recorded: { name: string; route: string; reports: readonly ProviderReport[] }[] = []
let aws: AwsFetch = { certificate: () => Promise.reject(new Error('unasked')), confirm: () => Promise.reject(new Error('unasked')) } // prettier-ignore

const world = await storeWorld()
const feeds = makeFeeds({
  db: world.db,
  vault,
  aws: { certificate: (url) => aws.certificate(url), confirm: (url) => aws.confirm(url) },
  log: silentLog,
  now: () => now,
  record: async (from, reports) => {
    recorded.push({ ...from, reports })
    return reports.map(() => 'recorded')
  },
})

async function made(wish: FeedWish) {
  const feed = await addFeed({ db: world.db, vault, publicUrl }, wish)
  if (typeof feed === 'string') throw new Error(feed)
  return feed
}

async function post(id: string, body: unknown, headers: Record<string, string> = {}): Promise<FeedAnswer> {
  recorded = []
  const feed = await feeds(id)
  if (feed === undefined) throw new Error('no feed')
  return feed(requestOf(typeof body === 'string' ? body : JSON.stringify(body), headers))
}
const requestOf = (body: string, headers: Record<string, string>): FeedRequest => ({
  header: (name) => headers[name],
  body: Buffer.from(body),
})
const reports = (): readonly ProviderReport[] => recorded.flatMap((each) => each.reports)
const verdict = ({ reply }: ProviderReport) =>
  classify({ stage: 'report', action: reply?.action, code: reply?.code, enhancedCode: reply?.enhancedCode, text: reply?.text ?? '' }) // prettier-ignore

describe('Amazon SES', () => {
  const topic = 'arn:aws:sns:us-west-2:123456789012:bounces'
  const certificateUrl =
    'https://sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem'
  let key: string
  let certificate: string
  const asked: string[] = []

  beforeAll(() => {
    const folder = temporaryFolder()
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', join(folder, 'k'), '-out', join(folder, 'c'), '-subj', '/CN=sns.amazonaws.com', '-days', '30'], { stdio: 'ignore' }) // prettier-ignore
    key = readFileSync(join(folder, 'k'), 'utf8')
    certificate = readFileSync(join(folder, 'c'), 'utf8')
    now = new Date()
    aws = {
      certificate: async (url) => {
        asked.push(url)
        return certificate
      },
      confirm: async (url) => void asked.push(url),
    }
  })

  const envelope = (more: Record<string, string>, version = '1', by = key): Record<string, string> => {
    const members: Record<string, string> = {
      Type: 'Notification',
      MessageId: `m-${Math.random()}`,
      TopicArn: topic,
      Timestamp: now.toISOString(),
      SignatureVersion: version,
      SigningCertURL: certificateUrl,
      ...more,
    }
    const names = ['Message', 'MessageId', 'Subject', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type']
    const text = names.filter((name) => members[name] !== undefined).map((name) => `${name}\n${members[name]}\n`).join('') // prettier-ignore
    const signature = createSign(version === '1' ? 'RSA-SHA1' : 'RSA-SHA256')
      .update(text)
      .sign(by, 'base64')
    return { ...members, Signature: signature }
  }
  // "Amazon SNS notification examples for Amazon SES", shortened.
  const mail = {
    timestamp: '2018-10-08T14:05:45 +0000',
    messageId: '000001378603177f-7a5433e7-8edb-42ae-af10-f0181f34d6ee-000000',
    source: 'b1token@bounce.example.com',
    headers: [{ name: 'X-Posthorn-Token', value: 'b1header' }],
  }
  const bounce = {
    notificationType: 'Bounce',
    mail,
    bounce: {
      bounceType: 'Permanent',
      bounceSubType: 'General',
      feedbackId: '000001378603177f-18c07c78-fa81-4a58-9dd1-fedc3cb8f49a-000000',
      timestamp: '2012-06-19T01:07:52.000Z',
      bouncedRecipients: [
        {
          status: '5.0.0',
          action: 'failed',
          diagnosticCode: 'smtp; 550 user unknown',
          emailAddress: 'recipient1@example.com',
        },
      ],
    },
  }
  const said = (what: unknown, version = '1') => envelope({ Message: JSON.stringify(what) }, version)

  test.each(['1', '2'])('a bounce under SignatureVersion %s', async (version) => {
    const { id } = await made({ provider: 'ses', topic })
    expect(await post(id, said(bounce, version))).toEqual({ received: 1 })
    const [report] = reports()
    expect(report).toMatchObject({
      kind: 'bounce',
      source: 'feed',
      reporter: 'ses',
      recipient: 'recipient1@example.com',
      evidence: [
        { by: 'token', token: 'b1header' },
        { by: 'token', token: 'b1token' },
        { by: 'providerMessageId', providerMessageId: mail.messageId },
      ],
    })
    expect(verdict(report as ProviderReport)).toMatchObject({ event: 'hard_bounce', rule: 'user-unknown-words' })
    expect(recorded).toMatchObject([{ name: 'ses', route: 'installation' }])
    const { fingerprint } = report as ProviderReport
    await post(id, said(bounce, version))
    expect(reports()[0]?.fingerprint).toBe(fingerprint)
  })

  test('complaint, delivery, delay; and what no receiving provider said', async () => {
    const { id } = await made({ provider: 'ses', topic })
    const complaint = { notificationType: 'Complaint', mail, complaint: { feedbackId: 'f', complaintFeedbackType: 'abuse', complainedRecipients: [{ emailAddress: 'r@example.com' }] } } // prettier-ignore
    await post(id, said(complaint))
    expect(reports()).toMatchObject([{ kind: 'complaint', recipient: 'r@example.com' }])
    await post(id, said({ ...complaint, complaint: { ...complaint.complaint, complaintFeedbackType: 'not-spam' } }))
    expect(reports()).toEqual([])
    await post(id, said({ eventType: 'Delivery', mail, delivery: { timestamp: '2016-01-27T14:59:38.237Z', recipients: ['jane@example.com'], smtpResponse: '250 ok: Message 64111812 accepted' } })) // prettier-ignore
    expect(reports()).toMatchObject([{ kind: 'delivered', recipient: 'jane@example.com', occurredAt: new Date('2016-01-27T14:59:38.237Z') }]) // prettier-ignore
    await post(id, said({ eventType: 'DeliveryDelay', mail, deliveryDelay: { timestamp: '2020-06-16T00:25:40.914Z', delayType: 'TransientCommunicationFailure', delayedRecipients: [{ emailAddress: 'r@example.com', status: '4.4.1', diagnosticCode: 'smtp; 421 4.4.1 Unable to connect to remote host' }] } })) // prettier-ignore
    const [delay] = reports()
    expect(delay).toMatchObject({ kind: 'delay', reply: { action: 'delayed', enhancedCode: '4.4.1' } })
    await post(id, said({ eventType: 'DeliveryDelay', mail, deliveryDelay: { timestamp: '2020-06-16T04:25:40.914Z', delayedRecipients: [{ emailAddress: 'r@example.com' }] } })) // prettier-ignore
    expect(reports()[0]?.fingerprint).not.toBe(delay?.fingerprint) // of other hours
    await post(id, said({ eventType: 'Open', mail, open: {} }))
    expect(reports()).toEqual([])
    const full = { ...bounce, bounce: { ...bounce.bounce, bounceType: 'Transient', bounceSubType: 'MailboxFull', bouncedRecipients: [{ emailAddress: 'r@example.com' }] } } // prettier-ignore
    await post(id, said(full))
    expect(verdict(reports()[0] as ProviderReport)).toMatchObject({ class: 'capacity', suppress: false })
  })

  const onItsList = {
    bounceType: 'Permanent',
    bounceSubType: 'OnAccountSuppressionList',
    bouncedRecipients: [
      {
        emailAddress: 'r@example.com',
        action: 'failed',
        status: '5.1.1',
        diagnosticCode: 'Amazon SES did not send the message to this address because it is on the suppression list for your account. For more information about removing addresses from the suppression list, see the Amazon SES Developer Guide.', // prettier-ignore
      },
    ],
  }
  test.each([
    ['a bounce', { notificationType: 'Bounce', mail, bounce: onItsList }],
    ['a complaint', { notificationType: 'Complaint', mail, complaint: { feedbackId: 'f', complaintSubType: 'OnAccountSuppressionList', complainedRecipients: [{ emailAddress: 'r@example.com' }] } }], // prettier-ignore
  ])('an address on the list of SES itself was not sent to, and is nobody to suppress: %s', async (_, notification) => {
    const { id } = await made({ provider: 'ses', topic })
    await post(id, said(notification))
    expect(reports()).toMatchObject([{ kind: 'bounce', recipient: 'r@example.com' }])
    expect(verdict(reports()[0] as ProviderReport)).toMatchObject({ event: 'soft_bounce', suppress: false, rule: 'ses-suppression-list' }) // prettier-ignore
  })

  test('what may be an automatic reply is not the end of a message', async () => {
    const { id } = await made({ provider: 'ses', topic })
    const general = (recipient: object) => ({ ...bounce, bounce: { ...bounce.bounce, bounceType: 'Transient', bouncedRecipients: [recipient] } }) // prettier-ignore
    await post(id, said(general({ emailAddress: 'r@example.com' })))
    expect(reports()).toMatchObject([{ kind: 'delay', reply: { action: 'delayed' } }])
    await post(id, said(general({ emailAddress: 'r@example.com', status: '4.4.7', diagnosticCode: 'smtp; 421 4.4.2 later' }))) // prettier-ignore
    expect(reports()).toMatchObject([{ kind: 'bounce', reply: { action: 'failed' } }])
  })

  test('a topic in China is Amazon’s there', () => {
    expect(topicHost('arn:aws-cn:sns:cn-north-1:123456789012:x')).toBe('sns.cn-north-1.amazonaws.com.cn')
  })

  test('a subscription to the configured topic is confirmed by itself, at Amazon alone', async () => {
    const { id } = await made({ provider: 'ses', topic })
    const confirmation = (url: string) => envelope({ Type: 'SubscriptionConfirmation', Message: 'You have chosen', Token: 't', SubscribeURL: url }) // prettier-ignore
    const url = `https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&TopicArn=${topic}&Token=t`
    asked.length = 0
    expect(await post(id, confirmation(url))).toEqual({ received: 0 })
    expect(asked).toEqual([certificateUrl, url])
    for (const wrong of [
      url.replace('sns.us-west-2', 'evil.example/sns.us-west-2'),
      url.replace('ConfirmSubscription', 'Unsubscribe'),
      url.replace(topic, `${topic}2`),
      url.replace('https', 'http'),
      'x',
    ])
      // prettier-ignore
      expect(await post(id, confirmation(wrong))).toEqual({ refused: 'malformed' })
    expect(asked.filter((each) => each !== certificateUrl)).toEqual([url])
  })

  test('forged, changed, old, of another topic, or signed by a certificate from elsewhere: no effect', async () => {
    const { id } = await made({ provider: 'ses', topic })
    const good = said(bounce)
    const other = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
    const forged = envelope({ Message: JSON.stringify(bounce) }, '1', other.export({ type: 'pkcs8', format: 'pem' }) as string) // prettier-ignore
    for (const wrong of [
      forged,
      { ...good, Message: good['Message']?.replace('recipient1', 'recipient2') },
      { ...good, Subject: 'added' },
      { ...good, SignatureVersion: '3' },
      { ...good, Signature: 'x' },
      { ...good, Type: 'constructor' },
    ])
      // prettier-ignore
      expect(await post(id, wrong)).toEqual({ refused: 'signature' })
    asked.length = 0
    for (const url of [
      'https://sns.us-west-2.amazonaws.com.evil.example/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem',
      'http://sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem',
      'https://sns.us-west-2.amazonaws.com/other.pem',
      'https://user@sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem',
      'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem',
      'file:///etc/passwd',
    ])
      // prettier-ignore
      expect(await post(id, { ...good, SigningCertURL: url })).toEqual({ refused: 'signature' })
    expect(await post(id, envelope({ Message: '{}', TopicArn: `${topic}2` }))).toEqual({ refused: 'topic' })
    expect(asked).toEqual([])
    expect(await post(id, envelope({ Message: '{}', Timestamp: '2020-01-01T00:00:00.000Z' }))).toEqual({ refused: 'stale' }) // prettier-ignore
    const then = now
    try {
      now = new Date(then.getTime() + 31 * 86_400_000) // the certificate was good for 30 days
      expect(await post(id, said(bounce))).toEqual({ refused: 'signature' })
    } finally {
      now = then
    }
    for (const body of ['', 'null', '[]', '{']) expect(await post(id, body)).toEqual({ refused: 'malformed' })
    expect(recorded).toEqual([])
  })
})

describe('the requests to Amazon', () => {
  const host = 'sns.us-west-2.amazonaws.com'
  const url = `https://${host}/SimpleNotificationService-0123456789abcdef.pem`
  let server: Server
  let answer: { status: number; body: string } = { status: 200, body: 'pem' }
  let count = 0
  let clock = 0
  const fetching = (trusting = true) =>
    makeAwsFetch({ address: '127.0.0.1', port: (server.address() as AddressInfo).port, now: () => clock, ...(trusting ? { ca: certificateFor(host).ca } : {}) }) // prettier-ignore

  beforeAll(async () => {
    const { key, cert } = certificateFor(host)
    server = createServer({ key, cert }, (_request, response) => {
      count++
      response.writeHead(answer.status, { location: 'https://evil.example/' }).end(answer.body)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  afterAll(() => new Promise((resolve) => server.close(resolve)))

  test('a certificate is asked for once', async () => {
    const aws = fetching()
    count = 0
    expect(await Promise.all([aws.certificate(url), aws.certificate(url)])).toEqual(['pem', 'pem'])
    expect(count).toBe(1)
  })

  test('no redirect is followed, no endless answer read, no stranger believed, and no flood of requests made', async () => {
    answer = { status: 302, body: '' }
    await expect(fetching().certificate(url)).rejects.toThrow('302')
    answer = { status: 200, body: 'x'.repeat(1_000_000) }
    await expect(fetching().certificate(url)).rejects.toThrow('more than a certificate')
    answer = { status: 503, body: '' }
    const again = fetching()
    await expect(again.certificate(url)).rejects.toThrow('503')
    answer = { status: 200, body: 'pem' }
    expect(await again.certificate(url)).toBe('pem') // what went wrong is not kept for a day
    await expect(fetching(false).certificate(url)).rejects.toThrow(/certificate/)
    const aws = fetching()
    const many = await Promise.allSettled(Array.from({ length: 40 }, (_, at) => aws.confirm(`${url}?${at}`)))
    expect(many.filter(({ status }) => status === 'rejected').length).toBe(10)
    clock += 60_000
    await aws.confirm(url)
  })
})

describe('Postmark', () => {
  // postmarkapp.com/developer/webhooks
  const bounce = { RecordType: 'Bounce', ID: 42, Type: 'HardBounce', TypeCode: 1, Name: 'Hard bounce', MessageID: '883953f4-6105-42a2-a16a-77a8eac79483', Description: 'The server was unable to deliver your message (ex: unknown user, mailbox not found).', Details: 'Test bounce details', Email: 'john@example.com', BouncedAt: '2014-08-01T13:28:10.2735393-04:00', Metadata: { 'posthorn-token': 'b1meta' } } // prettier-ignore
  const basic = (secret: string) => ({ authorization: `Basic ${Buffer.from(`posthorn:${secret}`).toString('base64')}` })

  test('bounces by their reply or their type, deliveries, complaints', async () => {
    const feed = await made({ provider: 'postmark' })
    expect(feed.url).toBe(`https://posthorn:${feed.secret}@mail.example.org/feeds/${feed.id}`)
    const send = async (event: unknown) => {
      expect(await post(feed.id, event, basic(feed.secret ?? ''))).toMatchObject({ received: expect.any(Number) as number }) // prettier-ignore
      return reports()[0] as ProviderReport
    }
    const report = await send(bounce)
    expect(report).toMatchObject({ kind: 'bounce', recipient: 'john@example.com', evidence: [{ by: 'token', token: 'b1meta' }, { by: 'providerMessageId', providerMessageId: bounce.MessageID }] }) // prettier-ignore
    expect(verdict(report)).toMatchObject({ class: 'bad_mailbox', suppress: true })
    const policy = await send({ ...bounce, Details: 'smtp;550 5.7.1 Message rejected as spam' })
    expect(verdict(policy)).toMatchObject({ class: 'policy', suppress: false })
    expect(policy.reply).toEqual({ action: 'failed', text: '550 5.7.1 Message rejected as spam' })
    const another = await send({ ...bounce, ID: 43, Details: undefined })
    expect(another.detail).toBe(bounce.Description)
    expect(another.fingerprint).not.toBe(report.fingerprint)
    const address = await send({ ...bounce, Details: 'smtp;550 from 25.1.2.3: refused' })
    expect(address.reply).toMatchObject({ enhancedCode: '5.1.1' }) // of its type: an address is no code
    expect(verdict(await send({ ...bounce, Type: 'SoftBounce' }))).toMatchObject({ class: 'temporary' })
    for (const Type of ['AutoResponder', 'ChallengeVerification', 'Subscribe', 'constructor'])
      expect(await send({ ...bounce, Type })).toBeUndefined()
    const complaint = await send({ ...bounce, RecordType: 'SpamComplaint', Type: 'SpamComplaint' })
    expect(complaint).toMatchObject({ kind: 'complaint' })
    // Postmark tells it as a bounce, too, where both are asked for: it is one.
    expect(await send({ ...bounce, Type: 'SpamComplaint' })).toEqual(complaint)
    const delivery = { RecordType: 'Delivery', MessageID: bounce.MessageID, Recipient: 'john@example.com', DeliveredAt: '2019-11-05T16:33:54.9070259Z', Details: 'Test delivery webhook details' } // prettier-ignore
    expect(await send(delivery)).toMatchObject({ kind: 'delivered', recipient: 'john@example.com' })
    expect(await send({ ...bounce, RecordType: 'Open' })).toBeUndefined()
  })

  test('without the credentials of this very feed: no effect', async () => {
    const [feed, other] = [await made({ provider: 'postmark' }), await made({ provider: 'postmark' })]
    for (const headers of [{}, basic(''), basic(other.secret ?? ''), { authorization: `Bearer ${feed.secret}` }])
      expect(await post(feed.id, bounce, headers as Record<string, string>)).toEqual({ refused: 'signature' })
    expect(recorded).toEqual([])
  })
})

describe('Mailgun', () => {
  const key = 'key-0123456789abcdef0123456789abcdef'
  // documentation.mailgun.com: "Permanent Failure", shortened.
  const failed = { event: 'failed', id: 'G9Bn5sl1TC6nu79C8C0bwg', timestamp: 1521233195.375624, severity: 'permanent', reason: 'bounce', recipient: 'alice@example.com', envelope: { sender: 'b1token@bounce.example.com', transport: 'smtp', targets: 'alice@example.com' }, 'delivery-status': { 'attempt-no': 1, message: 'user unknown', code: 550, 'enhanced-code': '5.1.1', 'mx-host': 'mx.example.com', description: '' }, message: { headers: { 'message-id': '20130503192659.13651.20287@mg.example.com' } } } // prettier-ignore
  const signed = (event: unknown, { at = now, token = `t${Math.random()}`, by = key } = {}) => {
    const timestamp = String(Math.floor(at.getTime() / 1000))
    const signature = createHmac('sha256', by).update(timestamp + token).digest('hex') // prettier-ignore
    return { signature: { timestamp, token, signature }, 'event-data': event }
  }

  test('failures, deliveries, complaints; our return path names the message', async () => {
    const { id } = await made({ provider: 'mailgun', key })
    const send = async (event: unknown) => {
      await post(id, signed(event))
      return reports()[0] as ProviderReport
    }
    const report = await send(failed)
    expect(report).toMatchObject({ kind: 'bounce', recipient: 'alice@example.com', reply: { code: 550, enhancedCode: '5.1.1', remoteMta: 'mx.example.com' } }) // prettier-ignore
    expect(report.evidence[0]).toEqual({ by: 'token', token: 'b1token' })
    expect(report.occurredAt).toEqual(new Date(1521233195_375))
    expect(verdict(report).suppress).toBe(true)
    expect(await send({ ...failed, severity: 'temporary' })).toMatchObject({ kind: 'delay' })
    const listed = await send({ ...failed, reason: 'suppress-bounce', 'delivery-status': { code: 605, 'enhanced-code': '5.1.1', message: '', description: 'Not delivering to previously bounced address' } }) // prettier-ignore
    expect(verdict(listed).suppress).toBe(false)
    expect(listed.reply).toEqual({ action: 'failed', text: 'Mailgun did not send: suppress-bounce' })
    expect(await send({ ...failed, event: 'delivered', 'delivery-status': { code: 250, message: 'OK' } })).toMatchObject({ kind: 'delivered' }) // prettier-ignore
    expect(await send({ ...failed, event: 'complained' })).toMatchObject({ kind: 'complaint' })
    expect(await send({ ...failed, event: 'opened' })).toBeUndefined()
  })

  test.each([605, 0, 550.5])(
    'what no SMTP server says (code %s), no code, no time and no end are left out, and the event is told all the same',
    async (code) => {
      const { id } = await made({ provider: 'mailgun', key })
      const status = { code, 'enhanced-code': '5.1', message: '', description: 'x'.repeat(5_000) }
      await post(id, signed({ ...failed, timestamp: 'soon', 'delivery-status': status }))
      const [report] = reports()
      expect(report?.reply).toEqual({ action: 'failed', text: 'x'.repeat(2_000) })
      expect(report).not.toHaveProperty('occurredAt')
    },
  )

  test('a time that is signed as a number counts as one', async () => {
    const { id } = await made({ provider: 'mailgun', key })
    const { signature, ...event } = signed(failed)
    expect(await post(id, { ...event, signature: { ...signature, timestamp: Number(signature.timestamp) } })).toEqual({ received: 1 }) // prettier-ignore
  })

  test('a token counts once: the same request again is the same, with another event it is refused', async () => {
    const { id } = await made({ provider: 'mailgun', key })
    const first = signed(failed, { token: 'once' })
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(id, first)))
    expect(answers.every((answer) => 'received' in answer)).toBe(true)
    expect(await post(id, { ...first, 'event-data': { ...failed, id: 'other', recipient: 'bob@example.com' } })).toEqual({ refused: 'replayed' }) // prettier-ignore
    expect(recorded).toEqual([])
  })

  test('wrong key, old, unsigned: no effect', async () => {
    const { id } = await made({ provider: 'mailgun', key })
    expect(await post(id, signed(failed, { by: `${key}x` }))).toEqual({ refused: 'signature' })
    expect(await post(id, signed(failed, { at: new Date(now.getTime() - 27 * 3600_000) }))).toEqual({
      refused: 'stale',
    })
    expect(await post(id, signed(failed, { at: new Date(now.getTime() + 600_000) }))).toEqual({ refused: 'stale' })
    expect(await post(id, { 'event-data': failed })).toEqual({ refused: 'malformed' })
  })

  test('what was remembered long enough is forgotten', async () => {
    const { id } = await made({ provider: 'mailgun', key })
    await post(id, signed(failed, { token: 'old' }))
    await world.db.run(`update feed_seen set seen_at = seen_at - interval '4 days' where feed_id = $1`, [id])
    await post(id, signed(failed, { token: 'new' }))
    expect(await world.value('select count(*)::integer from feed_seen where feed_id = $1', [id])).toBe(1)
  })
})

describe('SendGrid', () => {
  // The sample in SendGrid's own libraries: key, signature, timestamp and body belong together.
  const publicKey =
    'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g=='
  const headers = {
    'x-twilio-email-event-webhook-signature':
      'MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=',
    'x-twilio-email-event-webhook-timestamp': '1600112502',
  }
  const sample =
    '[{"email":"hello@world.com","event":"dropped","reason":"Bounced Address","sg_event_id":"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA","sg_message_id":"LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0","smtp-id":"<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>","timestamp":1600112492}]\r\n'

  test('the published sample verifies, and not one octet less', async () => {
    const { id } = await made({ provider: 'sendgrid', key: publicKey })
    const before = now
    now = new Date(1600112600_000)
    expect(await post(id, sample, headers)).toEqual({ received: 1 })
    expect(reports()).toMatchObject([{ kind: 'bounce', recipient: 'hello@world.com', evidence: [{ by: 'providerMessageId', providerMessageId: 'LRzXl_NHStOGhQ4kofSm_A' }, { by: 'providerMessageId' }] }]) // prettier-ignore
    expect(verdict(reports()[0] as ProviderReport).suppress).toBe(false)
    expect(await post(id, sample.trim(), headers)).toEqual({ refused: 'signature' })
    expect(await post(id, sample, {})).toEqual({ refused: 'signature' })
    now = before
    expect(await post(id, sample, headers)).toEqual({ refused: 'stale' })
  })

  test('many events at once, each with its own meaning', async () => {
    const pair: { publicKey: KeyObject; privateKey: KeyObject } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const key = pair.publicKey.export({ type: 'spki', format: 'der' }).toString('base64')
    const { id } = await made({ provider: 'sendgrid', key })
    const event = (name: string, more: object) => ({ email: 'a@example.com', timestamp: 1513299569, event: name, sg_event_id: name, sg_message_id: 'q.1', ...more }) // prettier-ignore
    const body = JSON.stringify([
      event('processed', {}),
      event('delivered', { response: '250 OK' }),
      event('deferred', { response: '400 try again later', attempt: '5' }),
      event('bounce', { reason: '550 5.1.1 user unknown', status: '5.1.1', type: 'bounce' }),
      event('spamreport', {}),
      event('open', {}),
      event('dropped', { reason: 'Bounced Address', status: '5.1.1' }),
      null,
    ])
    const timestamp = String(Math.floor(now.getTime() / 1000))
    const signed = (text: string) => ({
      'x-twilio-email-event-webhook-signature': createSign('sha256').update(timestamp + text).sign(pair.privateKey, 'base64'), // prettier-ignore
      'x-twilio-email-event-webhook-timestamp': timestamp,
    })
    expect(await post(id, body, signed(body))).toEqual({ received: 5 })
    expect(reports().map(({ kind }) => kind)).toEqual(['delivered', 'delay', 'bounce', 'complaint', 'bounce'])
    const words = ['250 OK', '400 try again later', '550 5.1.1 user unknown', 'The recipient complained']
    expect(reports().map(({ detail }) => detail)).toEqual([...words, 'SendGrid did not send: Bounced Address'])
    // What it dropped is on a list of its own.
    expect([2, 4].map((at) => verdict(reports()[at] as ProviderReport).suppress)).toEqual([true, false])
    // A batch of 768 KB holds this many, and comes once.
    const batch = JSON.stringify(Array.from({ length: 2_500 }, (_, n) => event('delivered', { sg_event_id: `e${n}`, response: '250 OK' }))) // prettier-ignore
    expect(await post(id, batch, signed(batch))).toEqual({ received: 2_500 })
  })
})

describe('the generic feed', () => {
  const events = { events: [{ id: 'e1', type: 'bounce', token: 'b1t', recipient: 'a@example.com', code: 550, enhancedCode: '5.1.1', text: 'no', reporter: 'relay.example.net', occurredAt: '2026-11-21T05:00:00Z' }] } // prettier-ignore
  const signed = (secret: string, body: string, { id = 'w1', at = now } = {}) => {
    const timestamp = String(Math.floor(at.getTime() / 1000))
    const digest = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
    return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1=${digest}` }
  }

  test('is signed like our own webhooks, and speaks for the route it belongs to', async () => {
    const { workspaceId } = await world.sender()
    const { id, secret = '' } = await made({ provider: 'generic', workspace: workspaceId })
    const body = JSON.stringify(events)
    expect(await post(id, body, signed(secret, body))).toEqual({ received: 1 })
    expect(recorded).toMatchObject([{ name: 'generic', route: workspaceId, reports: [{ kind: 'bounce', evidence: [{ by: 'token', token: 'b1t' }], reporter: 'relay.example.net' }] }]) // prettier-ignore
    const other = body.replace('e1', 'e2')
    expect(await post(id, other, signed(secret, other))).toEqual({ refused: 'replayed' })
    expect(await post(id, body, signed(secret, other))).toEqual({ refused: 'signature' })
    expect(await post(id, body, signed(secret, body, { at: new Date(now.getTime() - 301_000) }))).toMatchObject({ refused: 'stale' }) // prettier-ignore
    expect(recorded).toEqual([])
  })

  test.each([
    ['{}', 'events'],
    ['x', 'events'],
    [JSON.stringify({ events: Array.from({ length: limits.feedEventsMax + 1 }, () => events.events[0]) }), 'events'],
    ['{"events":[{}]}', 'events.0.id'],
    [JSON.stringify({ events: [...events.events, { id: 'a', type: 'x', token: 't' }] }), 'events.1.type'],
    ['{"events":[{"id":"a","type":"bounce"}]}', 'events.0'],
  ])('whoever writes %.40s is told that it is %s, and nothing of it counts', async (body, field) => {
    const { id, secret = '' } = await made({ provider: 'generic' })
    expect(await post(id, body, signed(secret, body))).toEqual({
      refused: 'malformed',
      mistake: { field, words: expect.stringContaining(`"${field}" must `) as string },
    })
    expect(recorded).toEqual([])
  })

  test('a request without an id, or of another time, is told the header', async () => {
    const { id, secret = '' } = await made({ provider: 'generic' })
    const body = JSON.stringify(events)
    const { 'webhook-id': _, ...without } = signed(secret, body)
    expect(await post(id, body, without)).toMatchObject({ mistake: { field: 'Webhook-Id' } })
    const late = signed(secret, body, { at: new Date(now.getTime() - 301_000) })
    expect(await post(id, body, late)).toMatchObject({ mistake: { field: 'Webhook-Timestamp' } })
  })
})

test('what could not be written down is not said to be received: the provider comes again, and then it is', async () => {
  let isAway = true
  const record = async () => {
    if (isAway) throw new Error('the database is away')
    return ['recorded']
  }
  const door = makeFeeds({ db: world.db, vault, aws, log: silentLog, now: () => now, record })
  const { id, secret = '' } = await made({ provider: 'postmark' })
  const event = { RecordType: 'SpamComplaint', MessageID: 'm', Email: 'john@example.com' }
  const authorization = `Basic ${Buffer.from(`posthorn:${secret}`).toString('base64')}`
  const told = async () => (await door(id))?.(requestOf(JSON.stringify(event), { authorization }))
  await expect(told()).rejects.toThrow('the database is away')
  isAway = false
  expect(await told()).toEqual({ received: 1 })
})

describe('feeds as operators see them', () => {
  const rsaKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey.export({ type: 'spki', format: 'der' }).toString('base64') // prettier-ignore

  test('made, listed without their secrets, removed for good', async () => {
    const tools = { db: world.db, vault, publicUrl }
    const { secret, ...feed } = await made({ provider: 'generic' })
    const all = await listFeeds(tools)
    expect(all).toContainEqual(feed)
    expect(JSON.stringify(all)).not.toContain(secret)
    expect(await removeFeed(tools, feed.id)).toEqual(feed)
    expect(await removeFeed(tools, feed.id)).toBeUndefined()
    expect(await feeds(feed.id)).toBeUndefined()
  })

  test.each([
    [{ provider: 'other' }, 'There is no provider "other"'],
    [{ provider: 'ses' }, 'needs --topic'],
    [{ provider: 'ses', topic: 'arn:aws:sqs:us-west-2:123456789012:x' }, 'is not the ARN'],
    [{ provider: 'postmark', topic: 't' }, 'Only an SES feed'],
    [{ provider: 'mailgun' }, 'needs --key-file'],
    [{ provider: 'mailgun', key: 'short' }, 'no webhook signing key'],
    [{ provider: 'sendgrid', key: 'MFkw' }, 'no public key'],
    [{ provider: 'sendgrid', key: rsaKey }, 'no public key'],
    [{ provider: 'generic', key: 'x' }, 'takes no key'],
  ])('%j is refused with the way out', async (wish, words) => {
    expect(await addFeed({ db: world.db, vault, publicUrl }, wish)).toContain(words)
  })
})
