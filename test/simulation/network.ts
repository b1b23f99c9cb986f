// The network of the simulation, and the mail servers at its other end: sockets as the real conversation uses them, bytes that take their
// time and keep their order, and receivers that accept, refuse, cut the line, say nothing, or answer late. Whatever left a machine arrives,
// also when its sender is dead by then.
import { EventEmitter } from 'node:events'
import type { Kernel, Process } from './kernel.ts'

/** A final dot on its way, or arrived. */
export interface Dot {
  readonly recipient: string
  readonly process: Process | undefined
  readonly writtenAt: number
  epoch: number | undefined
  /** The receiver said 4yz or 5yz to it, or on its connection already to the content before it. */
  readonly isRefused: () => boolean
  refused: boolean
  accepted: boolean
  /** A well-formed reply was handed to the living process that wrote it. */
  heard: boolean
}

export interface Watcher {
  dotWritten(dot: Dot): void
  /** The receiver takes responsibility. */
  accepted(dot: Dot): void
  /** A moment at which chance may strike the process. */
  moment(what: string, process: Process | undefined): void
}

export interface NetworkManner {
  /** From now on everybody answers as asked. */
  isPeaceful(): boolean
}

const dotText = '\r\n.\r\n'

class SimulatedSocket extends EventEmitter {
  writableLength = 0
  #open = true
  readonly #send: (text: string) => void
  readonly #hangUp: () => void

  constructor(send: (text: string) => void, hangUp: () => void) {
    super()
    this.#send = send
    this.#hangUp = hangUp
  }

  get isOpen(): boolean {
    return this.#open
  }

  write(bytes: Buffer | string): boolean {
    if (this.#open) this.#send(typeof bytes === 'string' ? bytes : bytes.toString('latin1'))
    return true
  }

  end(bytes: string): void {
    this.write(bytes)
  }

  destroy(): void {
    if (!this.#open) return
    this.#open = false
    this.#hangUp()
    this.emit('close')
  }

  /** From the other side. */
  over(event: 'end' | 'error'): void {
    if (!this.#open) return
    this.emit(event, new Error('reset'))
    this.destroy()
  }
}

export function makeNetwork(kernel: Kernel, watcher: Watcher, manner: NetworkManner) {
  const { chance } = kernel
  const latency = () => (chance.happens(0.03) ? chance.next() * 400 : 0.1 + chance.next() * 2)

  const connect = (): SimulatedSocket => {
    const process = kernel.process
    let arrivesAt = 0
    let heardAt = 0
    let gone = false
    /** In the order in which it was written. */
    const toServer = (act: () => void) => {
      arrivesAt = Math.max(arrivesAt, kernel.now + latency())
      kernel.after(arrivesAt - kernel.now, act)
    }
    const toClient = (act: () => void, delayMs = 0) => {
      heardAt = Math.max(heardAt, kernel.now + delayMs + latency())
      kernel.after(heardAt - kernel.now, () => kernel.after(0, act, process))
    }
    const server = makeServer({
      say: (text, delayMs, dot) =>
        toClient(() => {
          if (!socket.isOpen) return
          if (dot !== undefined) dot.heard = true
          if (dot !== undefined) watcher.moment('reply', process)
          socket.emit('data', Buffer.from(text, 'latin1'))
        }, delayMs),
      hangUp: () => {
        gone = true
        toClient(() => socket.over(chance.happens(0.5) ? 'end' : 'error'))
      },
    })
    let recipient = ''
    const socket = new SimulatedSocket(
      (text) => {
        const to = /^RCPT TO:<(.*?)>/m.exec(text)?.[1]
        if (to !== undefined) recipient = to
        let dot: Dot | undefined
        const isRefused = () => dot?.refused === true || server.refusedEarly()
        if (text.endsWith(dotText)) {
          dot = {
            recipient,
            process,
            writtenAt: kernel.now,
            epoch: undefined,
            isRefused,
            refused: false,
            accepted: false,
            heard: false,
          }
          watcher.dotWritten(dot)
          watcher.moment('dot', process)
        }
        toServer(() => {
          if (!gone) server.heard(text, dot)
        })
      },
      () => toServer(() => (gone = true)),
    )
    const refused = !manner.isPeaceful() && chance.happens(0.04)
    toClient(() => (refused ? socket.over('error') : socket.emit('connect')), refused ? 0 : latency())
    if (!refused) toServer(() => server.greet())
    return socket
  }

  interface Line {
    readonly say: (text: string, delayMs?: number, dot?: Dot) => void
    readonly hangUp: () => void
  }

  const makeServer = ({ say, hangUp }: Line) => {
    const pipelining = chance.happens(0.5)
    let text = ''
    let inContent = false
    const rude = (probability: number) => !manner.isPeaceful() && chance.happens(probability)
    /** True when the line goes on. */
    const answer = (good: string, refusals: readonly string[]): boolean => {
      if (rude(0.02)) hangUp()
      else if (rude(0.01)) return true // silence
      else if (rude(0.05)) {
        say(`${chance.of(refusals)}\r\n`)
        return false
      } else say(`${good}\r\n`)
      return true
    }
    const finalAnswer = (dot: Dot): void => {
      const accept = () => {
        dot.accepted = true
        watcher.accepted(dot)
      }
      const fate = manner.isPeaceful() ? 0 : chance.next()
      if (fate < 0.5) {
        accept()
        say('250 2.0.0 ok queued as R1\r\n', 0, dot)
      } else if (fate < 0.62) {
        accept()
        say('250 2.0.0 ok\r\n', chance.next() * 5_000, dot)
      } else if (fate < 0.76) {
        dot.refused = true
        say('451 4.3.0 not now\r\n', chance.happens(0.3) ? chance.next() * 5_000 : 0, dot)
      } else if (fate < 0.8) {
        dot.refused = true
        say('550 5.7.1 not this\r\n', 0, dot)
      } else if (fate < 0.9) {
        if (chance.happens(0.8)) accept()
        hangUp()
      } else if (fate < 0.96) {
        if (chance.happens(0.8)) accept()
      } else {
        if (chance.happens(0.8)) accept()
        say('fine, thanks\r\n')
      }
    }
    const command = (line: string): void => {
      const verb = line.slice(0, 4)
      if (verb === 'EHLO') say(`250-mx.example\r\n${pipelining ? '250-PIPELINING\r\n' : ''}250 8BITMIME\r\n`)
      else if (verb === 'MAIL') answer('250 2.1.0 ok', ['451 4.3.0 not now', '421 4.3.2 bye', '550 5.7.1 no'])
      else if (verb === 'RCPT') refusedRcpt = !answer('250 2.1.5 ok', ['451 4.7.1 greylisted', '550 5.1.1 who'])
      else if (verb === 'DATA') {
        if (refusedRcpt) return say('554 5.5.1 no valid recipients\r\n')
        inContent = answer('354 go ahead', ['451 4.3.0 not now'])
      } else if (verb === 'QUIT') {
        say('221 2.0.0 bye\r\n')
        hangUp()
      } else say('250 2.0.0 ok\r\n')
    }
    let refusedRcpt = false
    let refusedEarly = false
    return {
      refusedEarly: () => refusedEarly,
      greet: () => void answer('220 mx.example ESMTP', ['421 4.3.2 busy', '554 5.3.2 no']),
      heard: (more: string, dot: Dot | undefined): void => {
        text += more
        for (;;) {
          if (inContent) {
            if (dot === undefined) {
              if (refusedEarly || !rude(0.01)) return
              refusedEarly = true
              say('451 4.3.0 full\r\n')
              return hangUp()
            }
            text = ''
            inContent = false
            return finalAnswer(dot)
          }
          const end = text.indexOf('\r\n')
          if (end < 0) return
          const line = text.slice(0, end)
          text = text.slice(end + 2)
          command(line)
        }
      },
    }
  }
  return { connect }
}
