// Numbers for Prometheus, derived from the same calls as the log, so that the two cannot disagree. One registry a process; the main process
// adds what its delivery process tells.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Log } from './log.ts'

export interface Metrics {
  readonly http: { answered(route: string, status: number, seconds: number): void }
  /** The log, counting what passes through it. */
  counting(log: Log): Log
  /** A value that is asked for at each scrape. */
  watch(name: string, help: string, value: () => number): void
  /** Prometheus text. */
  text(): Promise<string>
}

/** `process` is the label that tells the processes of one node apart. */
export function makeMetrics(process: string): Metrics {
  const registers = [new Registry()]
  const registry = registers[0] as Registry
  registry.setDefaultLabels({ process })
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 })
  const accepted = new Counter({
    name: 'posthorn_accepted_total',
    help: 'Submissions that became messages.',
    labelNames: ['source'],
    registers,
  })
  const refused = new Counter({
    name: 'posthorn_refused_total',
    help: 'Refusals, by code.',
    labelNames: ['code'],
    registers,
  })
  const attempts = new Counter({
    name: 'posthorn_attempts_total',
    help: 'Delivery attempts that ended, by outcome.',
    labelNames: ['outcome'],
    registers,
  })
  const notified = new Counter({
    name: 'posthorn_webhook_attempts_total',
    help: 'Tries at posting webhook events that ended, by outcome.',
    labelNames: ['outcome'],
    registers,
  })
  const reports = new Counter({
    name: 'posthorn_reports_total',
    help: 'Reports of providers that came after the session, by what became of them.',
    labelNames: ['type', 'outcome'],
    registers,
  })
  const faults = new Counter({
    name: 'posthorn_faults_total',
    help: 'Faults of our own, by place.',
    labelNames: ['what'],
    registers,
  })
  const seconds = new Histogram({
    name: 'posthorn_http_request_seconds',
    help: 'Time to answer an HTTP request.',
    labelNames: ['route', 'status'],
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers,
  })
  return {
    http: {
      answered: (route, status, took) => seconds.observe({ route, status }, took),
    },
    counting: (log) => ({
      ...log,
      accepted: (facts) => {
        accepted.inc({ source: String(facts['source'] ?? 'rest') })
        log.accepted(facts)
      },
      refused: (facts) => {
        refused.inc({ code: String(facts['code']) })
        log.refused(facts)
      },
      attempted: (facts) => {
        attempts.inc({ outcome: String(facts['outcome']) })
        log.attempted(facts)
      },
      notified: (facts) => {
        notified.inc({ outcome: String(facts['outcome']) })
        log.notified(facts)
      },
      reported: (facts) => {
        reports.inc({ type: String(facts['type'] ?? 'none'), outcome: String(facts['outcome']) })
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
    text: () => registry.metrics(),
  }
}
