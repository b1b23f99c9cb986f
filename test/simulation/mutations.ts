// Ways to get delivery wrong, each named by the model checker (delivery-semantics, "what breaks it"). They are put between the real parts where these
// are injected anyway, into the model of the database's functions, or into the source of a copy. The simulation must see every one fail.
import type { Transmitter, TransmitResult } from '../../src/deliver/transmit.ts'
import type { Ending, Recorder } from '../../src/store/outbound.ts'
import type { Mutation } from './world.ts'

/** A change to one file of a copy of `src`; `from` must stand in it. */
export interface Patch {
  readonly file: string
  readonly from: string
  readonly to: string
}

const arming =
  (arm: (real: Recorder) => Recorder['arm']): NonNullable<Mutation['recorder']> =>
  (real) => ({ finish: (row) => real.finish(row), arm: arm(real) })

const ending =
  (change: (ending: Ending) => Ending): NonNullable<Mutation['recorder']> =>
  (real) => ({ arm: (claim) => real.arm(claim), finish: (row) => real.finish(change(row)) })

const transmitting =
  (transmit: (real: Transmitter) => Transmitter['transmit']): NonNullable<Mutation['transmitter']> =>
  (real) => ({ ...real, transmit: transmit(real) })

const isUnanswered = ({ dotWritten, trouble }: TransmitResult) => dotWritten && trouble !== undefined

interface Tried extends Mutation {
  readonly patches?: readonly Patch[]
  /** The seed with which it was last seen to fail, tried before all others: of what fails once in hundreds of schedules, those would be run each time. */
  readonly seen?: number
}

export const mutations: Readonly<Record<string, Tried>> = {
  'no arm': { recorder: arming(() => () => Promise.resolve('armed')) },
  'arm after the dot': {
    transmitter: transmitting((real) => async (job) => {
      const result = await real.transmit({ ...job, arm: () => Promise.resolve('armed') })
      if (result.dotWritten) await job.arm()
      return result
    }),
  },
  'zero rows taken as an arm': {
    recorder: arming((real) => async (claim) => {
      const answer = await real.arm(claim)
      return answer === 'lost' ? 'armed' : answer
    }),
  },
  'unknown arm taken as an arm': {
    recorder: arming((real) => (claim) => real.arm(claim).catch(() => 'armed' as const)),
  },
  'reaper without conditions': { flaw: 'reaper without conditions', weather: 'slow', seen: 669 },
  'finish without epoch': { flaw: 'finish without epoch', seen: 391 },
  'late proof without epoch': { flaw: 'late proof without epoch', weather: 'doubt', seen: 160 },
  'arm without epoch': { flaw: 'arm without epoch', weather: 'skew', seen: 358 },
  'disarm after the dot': {
    transmitter: transmitting((real) => async (job) => {
      const result = await real.transmit(job)
      if (!isUnanswered(result)) return result
      return { ...result, phase: 'arm', trouble: 'too_late', dotWritten: false, needsDisarm: true }
    }),
  },
  'retry after a lost reply': {
    recorder: ending((row) =>
      row.status === 'delivery_unknown' ? { ...row, status: 'retrying', delayMs: 1, evidence: 'eod_4xx' } : row,
    ),
  },
  'next host after a lost reply': {
    transmitter: transmitting((real) => async (job) => {
      // With the content as it is before it is let go.
      const again = { ...job, arm: () => Promise.resolve('armed' as const) }
      const result = await real.transmit(job)
      return isUnanswered(result) ? real.transmit(again) : result
    }),
  },
  'suppression before the lock': { flaw: 'suppression before lock' },
  'old row revived': { flaw: 'old row revived' },
  'source: the dot is written before the arm': {
    patches: [
      {
        file: 'deliver/conversation.ts',
        from: 'const answer = await askToArm(mail)',
        to: 'line.write(finalDot)\n    const answer = await askToArm(mail)',
      },
      { file: 'deliver/conversation.ts', from: 'unwatch()\n    line.write(finalDot)', to: 'unwatch()' },
    ],
  },
  'source: a failed arm is good enough': {
    patches: [
      {
        file: 'deliver/conversation.ts',
        from: "const armed = answer === 'armed'",
        to: "const armed = answer === 'armed' || answer === 'failed'",
      },
    ],
  },
  // By itself it is caught by the arm, which no claim gets twice, and then by the content, which is gone behind it.
  'source: the next host is asked after the dot, and may arm again': {
    flaw: 'arm although armed',
    patches: [
      {
        file: 'deliver/transmit.ts',
        from: 'isTransaction(end) && (end.armAsked || isRefusedForGood(end))',
        to: 'isTransaction(end) && ((end.armAsked && end.trouble === undefined) || isRefusedForGood(end))',
      },
      { file: 'deliver/job.ts', from: 'held = undefined\n        leave.gone()', to: 'leave.gone()' },
    ],
  },
  'source: silence after the dot is a loss before it': {
    patches: [
      {
        file: 'deliver/outcome.ts',
        from: "if (trouble === 'timeout') return { kind: 'unknown', reason: 'eod_timeout' }",
        to: "if (trouble === 'timeout') return retry('lost_before_eod')",
      },
      {
        file: 'deliver/record.ts',
        from: "return refused ? { evidence: 'eod_4xx' } : {}",
        to: "return refused || result.trouble === 'timeout' ? { evidence: 'eod_4xx' } : {}",
      },
    ],
  },
  'a failover is not waited for': { flaw: 'no pause after a failover', weather: 'failover', seen: 620 },
  'what is under way is not assumed to be sent': {
    flaw: 'what is under way is not assumed to be sent',
    weather: 'failover',
    seen: 182,
  },
  'source: the dot does not wait for the mark': {
    weather: 'failover',
    seen: 633,
    patches: [
      {
        file: 'store/outbound.ts',
        from: "if (answer === 'armed') await mark.keep(counter ?? Infinity)",
        to: "if (answer === 'armed') mark.keep(counter ?? Infinity).catch(() => undefined)",
      },
    ],
  },
  'source: what a full disk has torn is not cut off': {
    weather: 'disk',
    seen: 647,
    patches: [{ file: 'deliver/journal.ts', from: 'if (torn) await handle.truncate(wholeBytes)', to: '' }],
  },
  'source: the journal is not synced': {
    weather: 'disk',
    seen: 43,
    patches: [
      {
        file: 'deliver/journal.ts',
        from: 'await handle.datasync()\n    torn = false\n    wholeBytes += size',
        to: 'torn = false\n    wholeBytes += size',
      },
    ],
  },
}
