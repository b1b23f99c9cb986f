// Numbers for Prometheus, derived from the same calls as the log, so that the two cannot disagree. One registry a process; the main process
// adds what its delivery process tells.
import { setTimeout as wait } from 'node:timers/promises'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { limits } from '../config.ts'
import type { Log } from './log.ts'

/** Troubles of attempts that came to nothing through no fault of the other side. */
const putOff: ReadonlySet<unknown> = new Set(['paced', 'gave_way', 'shutdown'])

export interface Metrics {
  readonly http: { answered(route: string, status: number, seconds: number): void }
  /** The log, counting what passes through it. */
  counting(log: Log): Log
  /** A value that is asked for at each scrape. */
  watch(name: string, help: string, value: () => number): void
  /**
   * Values out of one question that takes time, such as to the database: it is asked at a scrape, at most once in `keptMs`. While it fails there
   * are no samples; while it is late, the last ones for a few times `keptMs`, and then none: a scrape never waits for it.
   */
  measure(gauges: Readonly<Record<string, Measured>>, read: () => Promise<readonly Sample[]>, keptMs: number): void
  /** Prometheus text. */
  text(): Promise<string>
}

export interface Measured {
  readonly help: string
  readonly label?: string
}
export interface Sample {
  readonly name: string
  /** The value of the gauge's label. */
  readonly label?: string
  readonly value: number
}

/** The label values of counters that are known before anything has happened, by the counter's name. */
export type KnownLabels = Readonly<Record<string, readonly Readonly<Record<string, string>>[]>>

/** `process` is the label that tells the processes of one node apart. */
export function makeMetrics(process: string, known: KnownLabels = {}): Metrics {
  const registers = [new Registry()]
  const registry = registers[0] as Registry
  registry.setDefaultLabels({ process })
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 })
  // Gauges with the names of counters, which Prometheus' own check complains of; each is the sum of another.
  for (const kind of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${kind}_total`)
  const counter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers })
  const histogram = (name: string, help: string, buckets: number[], ...labelNames: string[]) =>
    new Histogram({ name, help, labelNames, buckets, registers })
  const accepted = counter('posthorn_accepted_total', 'Submissions that became messages.', 'source')
  const refused = counter('posthorn_refused_total', 'Refusals, by code.', 'code')
  const attempts = counter('posthorn_attempts_total', 'Delivery attempts that ended, by outcome.', 'outcome')
  const attemptSeconds = histogram(
    'posthorn_attempt_seconds',
    'Time that a delivery attempt took, by outcome.',
    [0.05, 0.25, 1, 5, 15, 60, 300, 900],
    'outcome',
  )
  const deliverySeconds = histogram(
    'posthorn_delivery_seconds',
    'Time from acceptance until the next host took the message.',
    [0.1, 0.5, 1, 5, 15, 60, 300, 1_800, 7_200, 28_800, 86_400],
  )
  const bounces = counter('posthorn_bounces_total', 'Refusals of providers in the session, by class.', 'class', 'type')
  const webhookSeconds = histogram(
    'posthorn_webhook_attempt_seconds',
    'Time that a try at posting a webhook event took.',
    [0.05, 0.25, 1, 5, 15],
  )
  const notified = counter(
    'posthorn_webhook_attempts_total',
    'Tries at posting webhook events that ended, by outcome.',
    'outcome',
  )
  const reports = counter(
    'posthorn_reports_total',
    'Reports of providers that came after the session, by what became of them; bounces by class, too.',
    'type',
    'outcome',
    'class',
  )
  const faults = counter('posthorn_faults_total', 'Faults of our own, by place.', 'what')
  const seconds = histogram(
    'posthorn_http_request_seconds',
    'Time to answer an HTTP request.',
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    'route',
    'status',
  )
  // What has not happened yet is 0: an alert sees no step from nothing to a number.
  for (const source of ['rest', 'smtp']) accepted.inc({ source }, 0)
  for (const outcome of ['accepted', 'retry', 'failed', 'unknown', 'put_off']) attempts.inc({ outcome }, 0)
  for (const outcome of ['delivered', 'retry', 'given_up', 'endpoint_disabled']) notified.inc({ outcome }, 0)
  for (const [name, all] of Object.entries(known)) {
    const counter = registry.getSingleMetric(name)
    if (!(counter instanceof Counter)) throw new Error(`there is no counter ${name}`)
    for (const labels of all) counter.inc(labels, 0)
  }
  return {
    http: {
      answered: (route, status, took) => seconds.observe({ route, status }, took),
    },
    counting: (log) => ({
      ...log,
      accepted: (facts) => {
        // Of a repeat nothing new became a message.
        if (facts['replayed'] !== true) accepted.inc({ source: String(facts['source'] ?? 'rest') })
        log.accepted(facts)
      },
      refused: (facts) => {
        refused.inc({ code: String(facts['code']) })
        log.refused(facts)
      },
      attempted: (facts) => {
        const { ms, ageMs, bounce, provider, trouble } = facts
        // It tells nothing of how mail fares: a provider with a limit, a stop, or a slot that others needed.
        const isPutOff = facts['outcome'] === 'retry' && putOff.has(trouble)
        const outcome = isPutOff ? 'put_off' : String(facts['outcome'])
        attempts.inc({ outcome })
        if (typeof ms === 'number') attemptSeconds.observe({ outcome }, ms / 1000)
        if (typeof ageMs === 'number') deliverySeconds.observe(ageMs / 1000)
        // The simulator's refusals are about nobody, and no operator is to be called for them.
        if (bounce !== undefined && provider !== 'sandbox')
          bounces.inc({ class: String(bounce), type: String(facts['report']) })
        log.attempted(facts)
      },
      notified: (facts) => {
        notified.inc({ outcome: String(facts['outcome']) })
        if (typeof facts['ms'] === 'number') webhookSeconds.observe(facts['ms'] / 1000)
        log.notified(facts)
      },
      reported: (facts) => {
        const { type = 'none', outcome, bounce } = facts
        reports.inc({
          type: String(type),
          outcome: String(outcome),
          ...(bounce !== undefined && { class: String(bounce) }),
        })
        log.reported(facts)
      },
      fault: (what, error, facts) => {
        faults.inc({ what })
        log.fault(what, error, facts)
      },
    }),
    watch: (name, help, value) => {
      const gauge: Gauge = new Gauge({ name, help, registers, collect: () => gauge.set(value()) })
    },
    measure: (gauges, read, keptMs) => {
      let askedAt = -Infinity
      let underWay = false
      let answer: Promise<readonly Sample[]> = Promise.resolve([])
      let last: { readonly at: number; readonly samples: readonly Sample[] } = { at: -Infinity, samples: [] }
      const ask = async (): Promise<readonly Sample[]> => {
        const samples = await read().catch(() => [])
        underWay = false
        last = { at: performance.now(), samples }
        return samples
      }
      const samplesOf = (): Promise<readonly Sample[]> => {
        const now = performance.now()
        if (!underWay && now - askedAt >= keptMs) {
          askedAt = now
          underWay = true
          answer = ask()
        }
        const meanwhile = now - last.at < 4 * keptMs ? last.samples : []
        return Promise.race([answer, wait(limits.metricsWaitMs, meanwhile, { ref: false })])
      }
      for (const [name, { help, label }] of Object.entries(gauges)) {
        const gauge: Gauge = new Gauge({
          name,
          help,
          registers,
          labelNames: label === undefined ? [] : [label],
          collect: async () => {
            const samples = await samplesOf()
            gauge.reset()
            if (label === undefined && !samples.some((sample) => sample.name === name)) gauge.remove() // a reset leaves a 0, which nobody has counted
            for (const sample of samples)
              if (sample.name === name)
                gauge.set(label === undefined ? {} : { [label]: sample.label ?? '' }, sample.value)
          },
        })
      }
    },
    text: () => registry.metrics(),
  }
}
