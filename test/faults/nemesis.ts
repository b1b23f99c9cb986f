// What goes wrong in a fault campaign. Each round kills something with -9, and every other round something is stopped, or the wire to
// PostgreSQL is cut, before it. A good part of the kills wait for the receiver's word that a final dot has come which it has not answered, and
// then meet the very node that wrote it. Every fault notes which messages were armed and unanswered: nobody else may end unknown.
import { readFileSync } from 'node:fs'
import type { ClusterServer } from '../world/postgres-cluster.ts'
import type { PostgresProxy, ProxyMoment } from '../world/postgres-proxy.ts'
import type { Posthorn } from '../world/posthorn.ts'
import type { Chance } from '../world/random.ts'
import type { Receiver } from '../world/receiver-process.ts'

export interface Node {
  readonly name: string
  readonly posthorn: Posthorn
  readonly proxy: PostgresProxy
  /** What its next start has besides. */
  settings: Readonly<Record<string, string>>
  /** Its processes are there and not stopped. */
  up: boolean
  back: Promise<void>
}

export interface Fault {
  readonly what: string
  /** Undefined: it met no node. */
  readonly node: string | undefined
  readonly at: number
  /** The messages that were armed, and had no recorded answer, when it struck. */
  readonly armed: ReadonlySet<string>
  /** The receiver had a dot of the node's in its hands. */
  readonly aimed: boolean
}

export interface Battlefield {
  readonly nodes: readonly Node[]
  readonly primary: ClusterServer
  readonly receiver: Receiver
  readonly chance: Chance
  readonly leaseMs: number
  readonly say: (words: string) => void
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

export function makeNemesis(field: Battlefield) {
  const { nodes, primary, receiver, chance, leaseMs, say } = field
  const faults: Fault[] = []

  const someNode = async (): Promise<Node> => {
    await Promise.race(nodes.map((node) => node.back))
    return chance.of(nodes.filter((node) => node.up))
  }

  /** The node that has just written a dot to which no answer comes yet. */
  const armedNode = async (): Promise<Node | undefined> => {
    receiver.forget()
    for (const deadline = Date.now() + 1_500; Date.now() < deadline;) {
      const seen = await receiver.reached('eod', 1_500).catch(() => undefined)
      if (seen === undefined || !String(seen.to).startsWith('slow-eod-500')) continue
      const node = nodes.find(({ name, up }) => up && name === seen.helo)
      if (node !== undefined) return node
    }
    return undefined
  }

  /**
   * After what was under way at the server when the fault struck. With `stoppedAt` also what was armed then, and whose lease has run out before this look: it is
   * unknown already.
   */
  const armedNow = async (struckAt: string, stoppedAt = 'infinity'): Promise<string[]> => {
    for (;;) {
      const [row] = await patiently(() =>
        primary.query<{ busy: number; ids: string[] | null }>(
          `select (select count(*)::integer from pg_stat_activity where application_name like 'posthorn %' and state <> 'idle'
                     and query_start <= '${struckAt}') busy,
                  (select json_agg(a.id) from (
                     select message_id id from outbound where armed_epoch is not null
                     union select id from messages where status = 'delivery_unknown' and finished_at >= '${stoppedAt}') a) ids`,
        ),
      )
      if (row?.busy === 0) return row.ids ?? []
      await pause(5)
    }
  }
  /**
   * Stops the processes, and answers what is armed when everything that they had asked of the database has been done. What they have written may still
   * be on the wire, or in a backend that has not had its turn: an arm that commits after the look would belong to no fault.
   */
  const standStill = async (node: Node, pids: readonly number[]): Promise<string[]> => {
    const stoppedAt = await clock()
    for (const pid of pids) strike(pid, 'SIGSTOP')
    while (pids.some(runs)) await pause(1)
    await Promise.race([node.proxy.settled(), pause(2_000)])
    return armedNow(await clock(), stoppedAt)
  }
  const clock = async () =>
    (await patiently(() => primary.query<{ now: string }>('select clock_timestamp()::text now')))[0]?.now ?? ''

  const note = async (what: string, node: Node | undefined, aimed: boolean, before: readonly string[] = []) => {
    const armed = new Set([...before, ...(node === undefined ? [] : await armedNow(await clock()))])
    faults.push({ what, node: node?.name, at: Date.now(), armed, aimed })
    say(`${what} ${node?.name ?? ''}: ${armed.size} armed`)
  }

  const revive = (node: Node) => {
    node.up = false
    node.back = (async () => {
      await node.posthorn.gone()
      node.proxy.away(false)
      node.proxy.hold(false)
      // As a supervisor would: a start while PostgreSQL is starting ends with status 1.
      await patiently(() => node.posthorn.startAgain(node.settings), 200)
      node.up = true
    })()
    node.back.catch(() => undefined) // told at the end
  }

  /** `aimed`: at the node whose dot has no answer yet. */
  const victim = async (aimed: boolean): Promise<[Node, boolean]> => {
    const armed = aimed ? await armedNode() : undefined
    return armed === undefined ? [await someNode(), false] : [armed, true]
  }

  const end = async (node: Node, what: string, aimed: boolean) => {
    node.up = false
    const pids = node.posthorn.pids()
    const before = await standStill(node, pids)
    for (const pid of pids) strike(pid, 'SIGKILL')
    await note(what, node, aimed, before)
    revive(node)
  }
  const killNode = async (aim: boolean) => {
    const [node, aimed] = await victim(aim)
    await end(node, 'killed', aimed)
  }
  /** One process of it: the others are to notice, and end by themselves. */
  const killPart = async (part: 'main' | 'delivery', aim: boolean) => {
    const [node, aimed] = await victim(aim)
    const pid = partOf(node, part)
    if (pid === undefined) return killNode(aim)
    node.up = false
    // Stopped while it is read what is armed: until the others have ended, a lease may have run out, and what it held is unknown already.
    const delivery = partOf(node, 'delivery')
    const before = await standStill(node, [...new Set([pid, delivery ?? pid])])
    strike(pid, 'SIGKILL')
    if (delivery !== undefined) strike(delivery, 'SIGCONT')
    await node.posthorn.gone()
    await note(`killed ${part} process of`, node, aimed, before)
    revive(node)
  }
  const stopNode = async (part: 'all' | 'delivery', aim: boolean) => {
    const [node, aimed] = await victim(aim)
    const delivery = partOf(node, 'delivery')
    const pids = part === 'delivery' && delivery !== undefined ? [delivery] : node.posthorn.pids()
    const before = await standStill(node, pids)
    await note(`stopped ${part === 'all' ? '' : 'delivery process of '}for ${leaseMs + 1_500} ms:`, node, aimed, before)
    await pause(leaseMs + 1_500)
    for (const pid of pids) strike(pid, 'SIGCONT')
  }
  const cutWire = async () => {
    const node = await someNode()
    const statement = chance.of(['arm', 'finish', 'claim', 'admit', 'heartbeat'])
    const moment = chance.of<ProxyMoment>(['before', 'during', 'after'])
    await Promise.race([node.proxy.cut(statement, moment), pause(1_000)])
    await note(`wire cut ${moment} ${statement}`, undefined, false)
  }
  const wireAway = async (how: 'away' | 'hold') => {
    const node = await someNode()
    node.proxy[how](true)
    await note(`wire ${how === 'away' ? 'refused' : 'silent'} for 1,500 ms`, undefined, false)
    await pause(1_500)
    node.proxy[how](false)
  }
  /** Killed when the reply has come and the database cannot be told: the journal speaks after the start. */
  const killWithoutDatabase = async () => {
    const [node, aimed] = await victim(true)
    node.proxy.away(true)
    await pause(chance.happens(0.7) ? 1_600 : 100)
    await end(node, 'killed without its database,', aimed)
  }
  const killPostgres = async () => {
    await primary.kill()
    await patiently(() => primary.start())
    await note('killed PostgreSQL', undefined, false)
  }

  const kills = [
    { weight: 34, strike: () => killNode(true) },
    { weight: 10, strike: () => killNode(false) },
    { weight: 18, strike: () => killPart('delivery', true) },
    { weight: 8, strike: () => killPart('main', true) },
    { weight: 15, strike: killWithoutDatabase },
    { weight: 15, strike: killPostgres },
  ]
  const preludes = [
    { weight: 30, strike: () => stopNode('all', true) },
    { weight: 20, strike: () => stopNode('delivery', true) },
    { weight: 30, strike: cutWire },
    { weight: 10, strike: () => wireAway('away') },
    { weight: 10, strike: () => wireAway('hold') },
  ]
  return {
    faults,
    /** One kill, and perhaps something before it. */
    round: async (): Promise<void> => {
      if (chance.happens(0.5)) await chance.weighted(preludes).strike()
      await chance.weighted(kills).strike()
    },
    /** As operators do it, under load: one node after the other, which ends in peace. Nothing is armed by it that nobody can know. */
    deploy: async (settings: Readonly<Record<string, string>>): Promise<void> => {
      for (const node of nodes) {
        await node.back
        node.settings = { ...node.settings, ...settings }
        node.up = false
        const status = await node.posthorn.stop()
        if (status !== 0) throw new Error(`${node.name} was stopped, and ended with ${status}`)
        await note('stopped in peace and started:', undefined, false)
        revive(node)
        await node.back
      }
    },
    /** Everybody is back. */
    peace: async (): Promise<void> => {
      await Promise.all(nodes.map((node) => node.back))
    },
  }
}

function strike(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Not ended, and not stopped: proc_pid_stat(5), the state behind the name. */
function runs(pid: number): boolean {
  try {
    return !/^[TZX]$/.test(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '')[0] ?? '')
  } catch {
    return false
  }
}

function partOf({ posthorn }: Node, part: 'main' | 'delivery'): number | undefined {
  const script = part === 'main' ? 'src/main.ts' : 'src/delivery-process.ts'
  return posthorn.pids().find((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(script)
    } catch {
      return false // it has ended meanwhile
    }
  })
}

/** PostgreSQL may be starting. */
async function patiently<T>(work: () => Promise<T>, pauseMs = 50): Promise<T> {
  for (const deadline = Date.now() + 60_000; ;) {
    try {
      return await work()
    } catch (error) {
      if (Date.now() > deadline) throw error
      await pause(pauseMs)
    }
  }
}
