// What the node on this machine says of itself, on loopback beside its metrics (operating contract, /readyz): what no other can see, and the database
// does not know.
import { limits, type Settings } from '../config.ts'
import type { NodeStop } from '../domain/delivery-stop.ts'
import { fail, type Finding } from './finding.ts'

const words = {
  silent: () =>
    'The delivery process of the node on this machine does not answer, so it sends nothing: within two minutes it is ended, and its supervisor starts it again. If it comes back to that, look at what the machine is short of, and at the log.',
  mark: (folder) =>
    `The node on this machine sends nothing, though others may: the disk does not take its mark in ${folder}. Make room there, or mend the disk (what=mark in the log tells what it says); then it goes on by itself within seconds.`,
  look: () =>
    'The node on this machine sends nothing, though others may: it could not compare itself with the database since its start. what=fence in the log tells what keeps it from that.',
} as const satisfies Record<NodeStop, (folder: string) => string>

/** Why this node delivers nothing, though others may; undefined where it says nothing of the kind, or no service with these settings runs here. */
export async function checkOwnNode({
  POSTHORN_METRICS_PORT: port,
  POSTHORN_DATA_DIR: folder,
}: Settings): Promise<Finding | undefined> {
  const stop = port === 0 ? undefined : await nodeStop(port)
  return stop === undefined ? undefined : fail(words[stop](folder))
}

async function nodeStop(port: number): Promise<NodeStop | undefined> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(limits.doctorNodeMs) })
    const { nodeStop: said } = (await answer.json()) as { nodeStop?: unknown }
    return Object.keys(words).find((known): known is NodeStop => known === said)
  } catch {
    return undefined // nobody listens there, or somebody else
  }
}
