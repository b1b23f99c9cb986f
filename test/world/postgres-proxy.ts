// A wire to PostgreSQL that can be cut and held at chosen moments of a chosen statement. It speaks as much of the protocol as it takes to see
// where messages begin, which prepared statement is asked for (Bind), and when its transaction is over (ReadyForQuery); everything else
// passes as it is.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { setImmediate, setTimeout } from 'node:timers/promises'

/**
 * `before`: the statement does not reach the server. `during`: it does, and the line is cut at once: nobody knows. `after`: its transaction is
 * over, and the answer does not come back.
 */
export type ProxyMoment = 'before' | 'during' | 'after'

export interface ProxyTarget {
  /** A host, or the folder of a unix socket. */
  readonly host: string
  readonly port: number
}

export interface PostgresProxy {
  readonly port: number
  /** Cuts the line at the next such moment; resolves when it has. */
  cut(statement: string, moment: ProxyMoment): Promise<void>
  /** Lets the line fall silent at the next such moment; resolves when it has. Only that connection. */
  silence(statement: string, moment: 'before' | 'after'): Promise<void>
  /** The server is away: connections end, and new ones are refused. */
  away(on: boolean): void
  /** Nothing passes any more, and nothing is lost: a server, or a network, that hangs. */
  hold(on: boolean): void
  /** The same from the next such statement on, which is then the first to pass; resolves when it waits. */
  holdAt(statement: string): Promise<void>
  /** Resolves when what clients have written until now is read, and what they asked by it answered, or their line has ended. */
  settled(): Promise<void>
  /** Another server behind the same address. */
  lead(target: ProxyTarget): void
  stop(): Promise<void>
}

interface Line {
  end(): void
  flow(on: boolean): void
  /** How many times the client has asked for the end of its transaction, and how often the server has told it. */
  asked: number
  answered: number
}

interface Trap {
  readonly statement: string
  readonly moment: ProxyMoment
  readonly act: 'cut' | 'silence' | 'hold'
  sprung(): void
}

export async function startPostgresProxy(first: ProxyTarget): Promise<PostgresProxy> {
  let target = first
  let held = false
  let gone = false
  let traps: Trap[] = []
  const lines = new Set<Line>()
  /** What was on its way when the wire was held. */
  let late: (() => void)[] = []
  const hold = (on: boolean): void => {
    held = on
    if (!on) for (const pass of late.splice(0)) pass()
    for (const line of lines) line.flow(!on)
  }

  const server = createServer({ noDelay: true }, (client) => {
    if (gone) return void client.destroy()
    const upstream = target.host.startsWith('/')
      ? connect(join(target.host, `.s.PGSQL.${target.port}`))
      : connect(target.port, target.host)
    const line: Line = {
      asked: 0,
      answered: 0,
      end: () => {
        client.destroy()
        upstream.destroy()
      },
      flow: (on: boolean) => {
        for (const socket of [client, upstream])
          if (on) socket.resume()
          else socket.pause()
      },
    }
    lines.add(line)
    for (const socket of [client, upstream])
      socket
        .on('error', () => undefined)
        .on('close', () => {
          line.end()
          lines.delete(line)
        })
    if (held) line.flow(false)
    const holdUp = (pass: () => void): void => {
      late.push(pass)
      hold(true)
    }
    watch(client, upstream, line, holdUp, (statement, moment) => {
      const trap = traps.find((each) => each.statement === statement && each.moment === moment)
      if (trap !== undefined) traps = traps.filter((each) => each !== trap)
      return trap
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  const set = (statement: string, moment: ProxyMoment, act: Trap['act']): Promise<void> =>
    new Promise((sprung) => traps.push({ statement, moment, act, sprung }))
  return {
    port: (server.address() as AddressInfo).port,
    cut: (statement, moment) => set(statement, moment, 'cut'),
    silence: (statement, moment) => set(statement, moment, 'silence'),
    away: (on) => {
      gone = on
      if (on) for (const line of lines) line.end()
    },
    hold,
    holdAt: (statement) => set(statement, 'before', 'hold'),
    settled: async () => {
      // The first may come from within the current poll; between it and the second lies a whole one.
      for (let turn = 0; turn < 2; turn++) await setImmediate()
      const open = [...lines].map((line) => ({ line, asked: line.asked }))
      while (open.some(({ line, asked }) => lines.has(line) && line.answered < asked)) await setTimeout(5)
    },
    lead: (to) => {
      target = to
      for (const line of lines) line.end()
    },
    stop: async () => {
      for (const line of lines) line.end()
      server.close()
      await once(server, 'close')
    },
  }
}

function watch(
  client: Socket,
  upstream: Socket,
  line: Line,
  holdUp: (pass: () => void) => void,
  trapFor: (statement: string, moment: ProxyMoment) => Trap | undefined,
): void {
  /** The statement that is under way; a client asks one at a time. */
  let asked: string | undefined
  let silent = false
  const spring = (trap: Trap): void => {
    if (trap.act === 'cut') line.end()
    else silent = true
    trap.sprung()
  }
  const fromClient = messages(true)
  const fromServer = messages(false)
  client.on('data', (chunk: Buffer) => {
    if (silent) return
    let hold: Trap | undefined
    for (const { type, body } of fromClient(chunk)) {
      if (type === 'S' || type === 'Q') line.asked++ // Sync, or a simple query: one ReadyForQuery for each
      if (type !== 'B') continue
      const portalEnd = body.indexOf(0)
      asked = body.toString('utf8', portalEnd + 1, body.indexOf(0, portalEnd + 1))
      const trap = trapFor(asked, 'before')
      if (trap?.act === 'hold') hold = trap
      else if (trap !== undefined) return spring(trap)
    }
    if (hold !== undefined) {
      holdUp(() => upstream.write(chunk))
      return hold.sprung()
    }
    upstream.write(chunk)
    const during = asked === undefined ? undefined : trapFor(asked, 'during')
    if (during !== undefined) upstream.end(() => spring(during)) // the bytes are on their way
  })
  upstream.on('data', (chunk: Buffer) => {
    if (silent) return
    for (const { type } of fromServer(chunk)) {
      if (type !== 'Z') continue
      line.answered = Math.min(line.answered + 1, line.asked) // the first one is the greeting's
      const trap = asked === undefined ? undefined : trapFor(asked, 'after')
      asked = undefined
      if (trap !== undefined) return spring(trap)
    }
    client.write(chunk)
  })
}

/** Cuts a stream of bytes into messages. The first of a client has no type. */
function messages(client: boolean): (chunk: Buffer) => { readonly type: string; readonly body: Buffer }[] {
  let parts: Buffer[] = []
  let size = 0
  let wanted = 0 // as many bytes has the message that has begun, as far as is known
  let started = !client
  return (chunk) => {
    parts.push(chunk)
    size += chunk.length
    if (size < wanted) return []
    let rest = Buffer.concat(parts)
    const found: { type: string; body: Buffer }[] = []
    for (;;) {
      const head = started ? 1 : 0
      wanted = rest.length < head + 4 ? head + 4 : head + rest.readUInt32BE(head)
      if (rest.length < wanted) break
      found.push({ type: started ? String.fromCharCode(rest[0] ?? 0) : '', body: rest.subarray(head + 4, wanted) })
      rest = rest.subarray(wanted)
      started = true
    }
    parts = [rest]
    size = rest.length
    return found
  }
}
