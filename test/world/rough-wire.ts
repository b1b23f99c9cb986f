// A wire of TCP that chance makes rough, octet by octet: a connection may be cut, reset, closed on one side, held up or made to drip at any octet
// of either direction, and at a mail's final dot and the reply to it more often than anywhere else. It keeps a book of its own: whose dot has come
// to it, if only in part, without its whole reply having gone back. Only of these does nobody know.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { chance, type Chance } from './random.ts'

/** `half`: what goes this way ends, the other way stays open for a while; `drip`: from here on an octet at a time. */
export type Roughness = 'cut' | 'reset' | 'half' | 'stall' | 'drip'

export interface RoughWire {
  readonly port: number
  /** What befell connections, and how often. */
  readonly befell: ReadonlyMap<string, number>
  /** Recipients of mails whose dot came here, and whose reply did not go back whole, or went while the line was torn. */
  readonly unanswered: ReadonlySet<string>
  /** Recipients of whom that was ever so of one mail, whatever became of others. */
  readonly everTorn: ReadonlySet<string>
  /** From now on nothing happens to anybody. */
  smooth(): void
  stop(): Promise<void>
}

export interface RoughWireOptions {
  readonly seed: number
  /** How likely something befalls a connection, and as likely again each mail's dot. */
  readonly chance: number
  readonly kinds?: readonly { readonly kind: Roughness; readonly weight: number }[]
}

export const allKinds = [
  { kind: 'cut', weight: 3 },
  { kind: 'reset', weight: 3 },
  { kind: 'half', weight: 2 },
  { kind: 'stall', weight: 4 },
  { kind: 'drip', weight: 1 },
] as const

type Way = 'up' | 'down'
interface Event {
  readonly way: Way
  /** `none`: it is drawn again then. */
  readonly kind: Roughness | 'none'
  /** After so many octets that way. */
  readonly at: number
}

const tearing: ReadonlySet<Event['kind']> = new Set(['cut', 'reset', 'half'])
const dot = '\r\n.\r\n'
const stallMsMost = 2_000
const lingerMs = 500
const octetsMost = 4_000
const replyOctetsMost = 40

export async function startRoughWire(serverPort: number, options: RoughWireOptions): Promise<RoughWire> {
  const { kinds = allKinds } = options
  const befell = new Map<string, number>()
  const unanswered = new Set<string>()
  const everTorn = new Set<string>()
  const ends = new Set<() => void>()
  let isSmooth = false
  let lines = 0

  /** What is to befall, `from` octets on at the earliest: as likely between the first and the tenth as between the hundredth and the thousandth. */
  const drawn = (dice: Chance, way: Way, from: number, most: number): Event => {
    const { kind } = dice.weighted(kinds)
    const at = from + Math.floor(most ** dice.next())
    return dice.happens(options.chance) && !isSmooth ? { way, kind, at } : { way, kind: 'none', at: from + octetsMost }
  }

  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const dice = chance(options.seed * 100_003 + ++lines)
    const upstream = connect({ port: serverPort, host: '127.0.0.1', noDelay: true, allowHalfOpen: true })
    const to = { up: upstream, down: client }
    const passed = { up: 0, down: 0 }
    const held: Record<Way, Buffer[] | undefined> = { up: undefined, down: undefined }
    let dripping: Way | undefined
    const later = (): Event => {
      const way = dice.of(['up', 'down'] as const)
      return drawn(dice, way, passed[way], octetsMost)
    }
    let next = later()
    /** Whose mail is on the wire, whether its content has begun to come, and what was answered to its dot, which has come. */
    let whose = ''
    let hasBegun = false
    let reply: string | undefined
    let isTorn = false

    const end = (): void => {
      client.destroy()
      upstream.destroy()
      ends.delete(end)
    }
    ends.add(end)

    const deliver = (way: Way, octets: Buffer): void => {
      passed[way] += octets.length
      if (way === 'down' && reply !== undefined) {
        reply += octets.toString('latin1')
        if (/^\d{3} .*\r\n$/m.test(reply)) {
          // What went back while the line was torn may not have arrived, be it whole.
          if (isTorn) everTorn.add(whose)
          else unanswered.delete(whose)
          whose = ''
          reply = undefined
        }
      }
      if (to[way].writable) to[way].write(octets)
    }

    /** A dot that is on its way here is thrown away unseen. */
    const notSeen = (): void => {
      if (!hasBegun || whose === '') return
      unanswered.add(whose)
      everTorn.add(whose)
    }

    const befall = ({ way, kind }: Event, rest: Buffer): void => {
      next = later()
      if (kind !== 'none') befell.set(`${kind} ${way}`, (befell.get(`${kind} ${way}`) ?? 0) + 1)
      if (kind === 'drip') dripping = way
      if (kind === 'none' || kind === 'drip') return pass(way, rest)
      held[way] = [rest]
      if (kind === 'reset') {
        notSeen()
        for (const socket of [client, upstream]) socket.resetAndDestroy()
      } else if (kind === 'cut' || kind === 'half') {
        // What still comes from the client does not go on, but is read.
        if (kind === 'cut') held.up = held.down = []
        for (const socket of kind === 'cut' ? [client, upstream] : [to[way]]) socket.end()
        setTimeout(() => {
          notSeen()
          end()
        }, lingerMs).unref()
      } else setTimeout(() => release(way), 20 + dice.below(stallMsMost)).unref()
    }

    /** What was held up goes on, and the end of it, where that has come meanwhile. */
    const release = (way: Way): void => {
      const late = held[way] ?? []
      held[way] = undefined
      for (const octets of late) if (octets.length > 0) pass(way, octets)
      if ((way === 'up' ? client : upstream).readableEnded) close(way)
    }

    const pass = (way: Way, octets: Buffer): void => {
      const waiting = held[way]
      if (waiting !== undefined) return void waiting.push(octets)
      const before = Math.max(0, next.at - passed[way])
      if (next.way === way && before < octets.length) {
        const due: Event = isSmooth ? { ...next, kind: 'none' } : next
        isTorn ||= tearing.has(due.kind)
        if (before > 0) deliver(way, octets.subarray(0, before))
        return befall(due, octets.subarray(before))
      }
      if (dripping !== way || octets.length <= 1) return deliver(way, octets)
      held[way] = [octets.subarray(1)]
      deliver(way, octets.subarray(0, 1))
      setImmediate(release, way)
    }

    /** Of mail: whose it is, and when its dot comes. Each of these is one write of the client's. */
    const read = (octets: Buffer): void => {
      const text = octets.toString('latin1')
      const said = /^RCPT TO:<(.*?)>/im.exec(text)?.[1]
      if (said !== undefined && reply === undefined) whose = said
      hasBegun = said === undefined && whose !== ''
      if (!text.endsWith(dot) || whose === '') return
      unanswered.add(whose)
      reply = ''
      const way = dice.of(['up', 'down', 'down'] as const)
      const underWay = (held.up ?? []).reduce((sum, { length }) => sum + length, octets.length)
      const from = way === 'up' ? passed.up + underWay - dot.length : passed.down
      const here = drawn(dice, way, from - 1, way === 'up' ? dot.length : replyOctetsMost)
      if (here.kind !== 'none') next = here
    }

    const close = (way: Way): void => {
      if (held[way] === undefined && to[way].writable) to[way].end()
    }
    const listen = (socket: Socket, way: Way): void => {
      socket
        .on('data', (octets: Buffer) => {
          if (way === 'up') read(octets)
          pass(way, octets)
        })
        .on('end', () => close(way))
        .on('error', () => undefined)
        .on('close', () => {
          close(way)
          // What is under way arrives all the same: a network does not know that its sender has given up. And what the other side still says is read.
          setTimeout(end, held[way] === undefined ? lingerMs : stallMsMost + lingerMs).unref()
        })
    }
    listen(client, 'up')
    listen(upstream, 'down')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    befell,
    unanswered,
    everTorn,
    smooth: () => void (isSmooth = true),
    stop: async () => {
      for (const end of ends) end()
      await once(server.close(), 'close')
    },
  }
}
