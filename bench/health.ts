// Whether a peer is itself: what it reached on the machine of ../shared/design/performance.md, against what it reaches here. A machine may be
// slower, and two things tell by how much: the RSA limit and in-memory Fastify. A peer that is slower than that was built badly, and a
// comparison with it says nothing.
import type { Usage } from './cpu.ts'
import { median } from './table.ts'

/** Messages per second; the low end where performance.md gives a range. */
const figures = {
  rsa: 8_350,
  inMemory: 45_000,
  naive: 5_600,
  postfixSigned: 440,
  postfixUnsigned: 680,
} as const
type Peer = keyof typeof figures
const share = 0.7

export interface Calibration {
  readonly rsa: readonly number[]
  readonly inMemory: readonly number[]
}

const reached = (peer: Peer, measured: readonly number[]): number => median(measured) / figures[peer]

/** Why this peer's row is invalid, or undefined. */
export function whyUnhealthy(peer: Peer, measured: readonly number[], calibration: Calibration): string | undefined {
  const part = reached(peer, measured)
  // A peer does not testify for itself.
  const witnesses = (['rsa', 'inMemory'] as const)
    .filter((each) => each !== peer && calibration[each].length > 0)
    .map((each) => reached(each, calibration[each]))
  const machine = Math.min(1, ...witnesses)
  if (part >= share * machine) return undefined
  return `its peer reached ${part.toFixed(2)} of its figure, the machine ${machine.toFixed(2)}`
}

/** One line for the record: how this machine compares with the one of the figures. */
export function calibrationOf({ rsa, inMemory }: Calibration): string {
  const parts = [
    ...(rsa.length > 0
      ? [`RSA limit ${Math.round(median(rsa))}/s (${reached('rsa', rsa).toFixed(2)} of its figure)`]
      : []),
    ...(inMemory.length > 0
      ? [
          `in-memory Fastify ${Math.round(median(inMemory))}/s (${reached('inMemory', inMemory).toFixed(2)} of its figure)`,
        ]
      : []),
  ]
  return parts.join(', ')
}

const quietCores = 0.3

/** What else ran on the machine. Postfix is left out: many of its processes are shorter than the kernel's clock can see. */
export function disturbanceOf(usages: readonly Usage[]): string {
  if (usages.length === 0) return ''
  const others = usages.map((usage) => usage.others)
  const loud = others.filter((share) => share > quietCores).length
  const warning =
    loud === 0 ? '' : `; WARNING: ${loud} of ${others.length} runs were disturbed by more than ${quietCores} cores`
  return `other work on the machine: median ${median(others).toFixed(2)} cores, most ${Math.max(...others).toFixed(2)}${warning}`
}
