// The alert rules as Prometheus reads them (promtool), with series that tell a story: what fires when, and for how long.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../world/ending.ts'

const rules = join(import.meta.dirname, '../../ops/alerts.yml')
const folder = temporaryFolder()

const promtool = (...args: string[]): string => execFileSync('promtool', args, { encoding: 'utf8', stdio: 'pipe' })

interface Story {
  readonly series: Readonly<Record<string, string>>
  readonly hours: number
  /** Each rule with the hours after which it fires; at all other hours of the story it must not. */
  readonly firing: Readonly<Record<string, readonly number[]>>
}

/** Their file is JSON, which YAML reads. `evaluated`: less often where a rule looks far back. */
function told(stories: readonly Story[], evaluated: '5m' | '30m' = '5m') {
  const file = join(folder, 'story.yml')
  const tests = {
    rule_files: [rules],
    evaluation_interval: evaluated,
    tests: stories.map(({ series, hours, firing }) => ({
      interval: '5m',
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      // Only whether: the words are the rules' own.
      promql_expr_test: Object.entries(firing).flatMap(([alertname, at]) =>
        Array.from({ length: hours }, (_, hour) => ({
          expr: `count by (alertname) (ALERTS{alertname="${alertname}", alertstate="firing"})`,
          eval_time: `${hour}h`,
          exp_samples: at.includes(hour) ? [{ labels: `{alertname="${alertname}"}`, value: 1 }] : [],
        })),
      ),
    })),
  }
  writeFileSync(file, JSON.stringify(tests))
  return () => promtool('test', 'rules', file)
}

const story = (series: Story['series'], hours: number, firing: Story['firing'], evaluated?: '5m' | '30m') =>
  told([{ series, hours, firing }], evaluated)

const hoursOf = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at)

test('Prometheus takes the rules', () => {
  expect(promtool('check', 'rules', rules)).toMatch(/SUCCESS: \d+ rules found/)
})

test('the alert for a broken domain does not end when the domain sends no more, but when it is mended or removed', () => {
  // Well for 2 hours, degraded for 72, failed for 24, well again. Two nodes tell it.
  const domains = (status: string, ...hourly: readonly (readonly [value: number, hours: number])[]) => {
    const values = hourly.map(([value, hours]) => `${value}x${hours * 12 - 1}`).join(' ')
    const name = (instance: string) => `posthorn_domains{status="${status}", job="posthorn", instance="${instance}"}`
    return { [name('a')]: values, [name('b')]: values }
  }
  const run = story(
    {
      ...domains('verified', [2, 2], [1, 96], [2, 8]),
      ...domains('degraded', [0, 2], [1, 72], [0, 32]),
      ...domains('failed', [0, 74], [1, 24], [0, 8]),
    },
    106,
    { PosthornDomainBroken: hoursOf(2 + 6, 2 + 72 + 24), PosthornDomainFailed: hoursOf(2 + 72, 2 + 72 + 24) },
  )
  expect(run).not.toThrow()
})

test('the alert for a failing webhook endpoint gives its receiver some hours, and the one for a disabled endpoint begins when it gives up', () => {
  // Well for 2 hours, failing for 120, disabled by itself until somebody enables it. Another one fails for 3 hours only.
  const endpoints = (state: string, ...hourly: readonly (readonly [value: number, hours: number])[]) => ({
    [`posthorn_webhook_endpoints{state="${state}", job="posthorn"}`]: hourly
      .map(([value, hours]) => `${value}x${hours * 12 - 1}`)
      .join(' '),
  })
  const run = story(
    {
      ...endpoints('failing', [0, 2], [1, 3], [0, 3], [1, 120], [0, 40]),
      ...endpoints('disabled_by_itself', [0, 128], [1, 24], [0, 16]),
    },
    168,
    { PosthornWebhookFailing: hoursOf(8 + 6, 8 + 120), PosthornWebhookDisabled: hoursOf(128, 128 + 24) },
  )
  expect(run).not.toThrow()
})

test('a single bounce calls nobody where there is little traffic; several of a few mails do, in the session or by report', () => {
  // Four mails an hour are taken, the first of them as well as all later ones.
  const counted = (name: string, labels: string, ...byHour: readonly number[]) => ({
    [`${name}{${labels}, job="posthorn"}`]: byHour
      .flatMap((many, hour) => [`${hour === 0 ? 0 : byHour[hour - 1]}x4`, `${many}x6`])
      .join(' '),
  })
  const taken = counted('posthorn_attempts_total', 'outcome="accepted"', 4, 8, 12, 16, 20, 24, 28)
  const unknown = 'type="hard_bounce", class="bad_mailbox"'
  const policy = 'type="soft_bounce", class="policy"'
  const one = story(
    {
      ...taken,
      ...counted('posthorn_bounces_total', unknown, 0, 1, 1, 1, 1, 1, 1),
      ...counted('posthorn_reports_total', `${policy}, outcome="recorded"`, 0, 1, 1, 1, 1, 1, 1),
    },
    7,
    { PosthornBounces: [], PosthornPolicy: [] },
  )
  expect(one).not.toThrow()
  const several = story(
    {
      ...taken,
      ...counted('posthorn_bounces_total', unknown, 0, 0, 4, 8, 8, 8, 8),
      ...counted('posthorn_reports_total', `${unknown}, outcome="recorded"`, 0, 0, 4, 8, 8, 8, 8),
      ...counted('posthorn_bounces_total', policy, 0, 0, 3, 6, 6, 6, 6),
    },
    7,
    { PosthornBounces: [3, 4], PosthornPolicy: [3, 4] },
  )
  expect(several).not.toThrow()
})

test('a disk that fills is told while there is time, and pages before nothing is accepted any more', () => {
  const disk = 'folder="/data", job="posthorn", instance="a"'
  const run = story(
    {
      // 20 GB of 100 for two hours, 5 for two, 400 MB for two, and room again.
      [`posthorn_disk_free_bytes{${disk}}`]: '20e9x23 5e9x23 0.4e9x23 20e9x23',
      [`posthorn_disk_size_bytes{${disk}}`]: '100e9x95',
    },
    8,
    { PosthornDiskLow: [3, 4, 5], PosthornDiskFull: [5] },
  )
  expect(run).not.toThrow()
})

test('housekeeping that fails in each of its rounds is told after some hours, and a single failure is not', () => {
  const faults = 'posthorn_faults_total{what="housekeeping", job="posthorn"}'
  // One a round for five hours, of six rounds an hour.
  const lasting = story({ [faults]: '0x11 0+0.5x60 30x36' }, 9, { PosthornHousekeeping: [4, 5, 6] })
  expect(lasting).not.toThrow()
  expect(story({ [faults]: '0x11 3x60' }, 6, { PosthornHousekeeping: [] })).not.toThrow()
})

test('a feed whose requests are refused is told of while its provider still tries, and one that is understood is not', () => {
  // Each hour four of them for three hours, and then the feed is set up anew; another feed is well all the while.
  const run = story(
    {
      'posthorn_reports_total{type="none", outcome="signature", job="posthorn"}': '0x12 0+0.5x36 18x48',
      'posthorn_reports_total{type="none", outcome="received", job="posthorn"}': '0+5x96',
      'posthorn_reports_total{type="none", outcome="unmatched", job="posthorn"}': '0+5x96',
    },
    8,
    { PosthornFeedRefused: [2, 3, 4] },
  )
  expect(run).not.toThrow()
})

test('a standby that goes away is told for a day, also where another one takes its place or none has to confirm; one that only starts anew is not', () => {
  // By hour; of two nodes one tells nothing at first.
  const standbys = (state: string, ...hourly: readonly number[]) => {
    const values = hourly.map((many) => `${many}x11`).join(' ')
    return {
      [`posthorn_database_standbys{state="${state}", job="posthorn", instance="a"}`]: values,
      [`posthorn_database_standbys{state="${state}", job="posthorn", instance="b"}`]: values.replace(/^\d+x/, '_x'),
    }
  }
  const days = (...values: readonly (readonly [many: number, hours: number])[]) =>
    values.flatMap(([many, hours]) => Array.from({ length: hours }, () => many))
  const gone = (series: Readonly<Record<string, string>>, firing: readonly number[], hours = 29) =>
    expect(story(series, hours, { PosthornStandbyGone: firing }, hours > 24 ? '30m' : '5m')).not.toThrow()
  const none = standbys('asynchronous', ...days([0, 30]))
  // One of two that each commit waits for any of; it comes back, or is taken away for good.
  gone({ ...standbys('synchronous', ...days([2, 2], [1, 3], [2, 3])), ...none }, hoursOf(3, 5), 8)
  gone({ ...standbys('synchronous', ...days([2, 3], [1, 27])), ...none }, hoursOf(4, 27))
  // The first of a list, whose place the second one takes.
  gone(
    { ...standbys('synchronous', ...days([1, 30])), ...standbys('asynchronous', ...days([1, 3], [0, 27])) },
    hoursOf(4, 27),
  )
  // It is there as before, and no commit waits for it any more.
  const other = standbys('asynchronous', ...days([0, 3], [1, 27]))
  gone({ ...standbys('synchronous', ...days([1, 3], [0, 27])), ...other }, hoursOf(4, 27))
  // A copy that begins, and goes on as none; a backup that is seen by a user who may not look; a restart of ten minutes; a new one; nobody.
  const brief = (state: string, values: string) => ({
    [`posthorn_database_standbys{state="${state}", job="posthorn", instance="a"}`]: values,
  })
  gone({ ...brief('synchronous', '1x35'), ...brief('asynchronous', '0x5 1x1 0x30') }, [], 3)
  gone({ ...brief('synchronous', '0x35'), ...brief('hidden', '1x5 2x9 1x20') }, [], 3)
  gone(brief('synchronous', '1x22 0x1 1x22'), [], 3)
  gone({ ...standbys('synchronous', 1, 2, 2), ...none }, [], 3)
  gone({ ...standbys('synchronous', 0, 0, 0), ...none }, [], 3)
})

test('what stops every commit calls somebody at once; what will stop it, or loses something then, is told in time', () => {
  const of = (name: string, values: string, labels = '') => ({
    [`posthorn_database_${name}{job="posthorn", instance="a"${labels}}`]: values,
  })
  const run = story(
    {
      ...of('commits_wait', '0x11 1x23 0x35'),
      ...of('standby_lag_bytes', '0x11 0.9e9x11 2e9x23 0x23', ', stage="flush"'),
      // A backup from a standby holds up its replay, and nothing is lost by that.
      ...of('standby_lag_bytes', '0x11 9e9x59', ', stage="replay"'),
      ...of('wal_kept_bytes', '1e9x11 3e9x11 5e9x23 0x23', ', slot="left"'),
      ...of('wal_kept_bytes', '1e9x71', ', slot="follower"'),
      ...of('archive_failing', '0x11 1x1 0x9 1x17 0x29'),
      ...of('transaction_ids', '2e8x11 1.6e9x23 2e8x35'),
      // Behind counts like ahead, and the step of a time service is over soon.
      ...of('clock_offset_seconds', '0x11 5x1 0x9 -3x17 0x29'),
    },
    6,
    {
      PosthornCommitsWait: [2],
      PosthornStandbyLag: [3],
      PosthornWalKept: [3],
      PosthornArchiveFailing: [3],
      PosthornTransactionIds: [2],
      PosthornClock: [3],
    },
  )
  expect(run).not.toThrow()
})

/** What each of the other rules fires for in the second hour (samples of each five minutes), and what is near it and calls nobody. */
const others: Readonly<Record<string, readonly [firing: Story['series'], quiet: Story['series']]>> = {
  PosthornAway: [up({ a: '1x20 0x14', b: '1x35' }), up({ a: '1x24 0x0 1x11', b: '1x35' })],
  // One of two nodes that answers and knows nothing, and one that is all there is and away.
  PosthornBlind: [
    { ...up({ a: '1x35', b: '0x35' }), ...of('queue_oldest_due_seconds', '0x15') },
    { ...up({ a: '1x23 0x11' }), ...of('queue_oldest_due_seconds', '0x22') },
  ],
  PosthornDeliveryFenced: [of('delivery_stopped_by_fence', '0x20 1x14'), of('delivery_stopped_by_fence', '0x35')],
  PosthornDeliveryStopped: [
    { ...of('delivery_stopped_by_drain', '0x11 1x23'), ...of('delivery_stopped_by_pause', '0x35') },
    { ...of('delivery_stopped_by_drain', '0x20 1x4 0x9'), ...of('delivery_stopped_by_pause', '0x35') },
  ],
  PosthornNodeStopped: [of('delivery_stopped_by_node', '0x11 1x23'), of('delivery_stopped_by_node', '0x23 1x0 0x10')],
  PosthornQueueLate: [of('queue_oldest_due_seconds', '0x11 1000x23'), of('queue_oldest_due_seconds', '800x35')],
  PosthornRelayLogin: [of('relay_logins_refused', '0x11 1x23'), of('relay_logins_refused', '0x35')],
  // Four fifths of 50 a round, and of 2.
  PosthornDeferred: [
    attempts({ accepted: '0+10x35', retry: '0x11 0+40x23', put_off: '0+90x35' }),
    attempts({ accepted: '0+30x35', retry: '0+20x35', put_off: '0+90x35' }),
  ],
  PosthornDeferredAll: [
    attempts({ accepted: '0+1x5 6x29', retry: '0+1x35' }),
    attempts({ accepted: '0x10 0+1x24', retry: '0+2x35' }),
  ],
  PosthornFailed: [
    attempts({ accepted: '0+10x35', failed: '0x6 0+5x28' }),
    attempts({ accepted: '0+10x35', failed: '0x6 0+2x28' }),
  ],
  PosthornUnknown: [attempts({ unknown: '0x14 0+2x20' }), attempts({ unknown: '0x14 4x20' })],
  PosthornRefusesForUs: [
    of('refused_total', '0x11 0+60x23', 'code="service_unavailable"'),
    of('refused_total', '0+60x35', 'code="quota_exceeded"'),
  ],
  PosthornKeepsRefusingForUs: [
    of('refused_total', '0x11 0+1x23', 'code="scanner_unavailable"'),
    of('refused_total', '0x22 3x12', 'code="scanner_unavailable"'),
  ],
  PosthornLargeMail: [
    of('faults_total', '0x20 0+1x14', 'what="large mail"'),
    of('faults_total', '0x20 2x14', 'what="large mail"'),
  ],
  PosthornFaults: [of('faults_total', '0x20 0+10x14', 'what="mark"'), of('faults_total', '0+3x35', 'what="mark"')],
  PosthornComplaints: [
    of('reports_total', '0x11 0+3x23', 'type="complaint", outcome="recorded"'),
    of('reports_total', '0x11 0+1x12 12x10', 'type="complaint", outcome="recorded"'),
  ],
  PosthornWebhooksLate: [
    of('webhook_queue_oldest_due_seconds', '0x11 2000x23'),
    of('webhook_queue_oldest_due_seconds', '1700x35'),
  ],
  // The story begins with the seconds of 1970.
  PosthornCertificate: [
    of('certificate_expires_timestamp_seconds', '700000x11 600000x23'),
    of('certificate_expires_timestamp_seconds', '700000x35'),
  ],
  PosthornJournal: [of('journal_replies', '0x11 2x23'), of('journal_replies', '0x23 2x1 0x9')],
  PosthornBackup: [of('backup_age_seconds', `0x11 ${'Inf '.repeat(24)}`), of('backup_age_seconds', '90000+300x35')],
}

function of(name: string, values: string, labels = ''): Story['series'] {
  return { [`posthorn_${name}{job="posthorn", instance="a"${labels === '' ? '' : `, ${labels}`}}`]: values }
}
function up(instances: Readonly<Record<string, string>>): Story['series'] {
  return Object.fromEntries(
    Object.entries(instances).map(([name, values]) => [`up{job="posthorn", instance="${name}"}`, values]),
  )
}
function attempts(outcomes: Readonly<Record<string, string>>): Story['series'] {
  return Object.assign(
    {},
    ...Object.entries(outcomes).map(([outcome, values]) => of('attempts_total', values, `outcome="${outcome}"`)),
  ) as Story['series']
}

test('every other rule fires for what it is about, and not for what is near it', () => {
  const stories = Object.entries(others).flatMap(([alert, [firing, quiet]]) => [
    { series: firing, hours: 3, firing: { [alert]: [2] } },
    { series: quiet, hours: 3, firing: { [alert]: [] } },
  ])
  expect(told(stories)).not.toThrow()
})

test('there is no rule without a story', () => {
  const here = readFileSync(import.meta.filename, 'utf8')
  const names = [...readFileSync(rules, 'utf8').matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
  expect(names.length).toBeGreaterThan(30)
  expect(names.filter((name) => !here.includes(`${name}: `))).toEqual([])
})
