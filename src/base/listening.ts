// Why a server cannot listen, for the operator, with the settings that change it. All our listeners say it alike.
import { createServer } from 'node:net'
import { Trouble, wordsOf } from './trouble.ts'

/** Where a server is to listen. `port` 0: any free one. */
export interface Address {
  readonly host: string
  readonly port: number
  /** The settings that both come from, where an operator has any. */
  readonly from?: { readonly host?: string; readonly port: string } | undefined
}

/** The trouble that the system's error means; `what` names the server. */
export function cannotListen(what: string, { host, port, from }: Address, cause: unknown): Trouble {
  const { code, message } = cause as NodeJS.ErrnoException
  const noLoopback = code === 'EADDRNOTAVAIL' && host === '127.0.0.1'
  const why = noLoopback ? bringItUp : (troubles[code ?? '']?.(from ?? {}) ?? message)
  return new Trouble(`${what} cannot listen on ${host.includes(':') ? `[${host}]` : host}:${port}: ${why}`, { cause })
}

/** As in a network namespace of its own. */
const bringItUp = 'this machine has no loopback address; bring it up (ip link set lo up)'

type From = { readonly host?: string; readonly port?: string }

const another = ({ port }: From) => (port === undefined ? '' : `; end it, or set ${port} to another port`)
const otherAddress = ({ host }: From) => (host === undefined ? '' : `; set ${host} to one`)

const troubles: Readonly<Record<string, (from: From) => string>> = {
  EADDRINUSE: (from) => `another program has the port${another(from)}`,
  EACCES: ({ port }) =>
    `this user may not open ports below 1024${port === undefined ? '' : `; set ${port} to one above 1023`}`,
  EADDRNOTAVAIL: (from) => `that is no address of this machine${otherAddress(from)}`,
  EAFNOSUPPORT: ({ host }) =>
    `this machine has no IPv6${host === undefined ? '' : `; set ${host} to an address of IPv4, such as 0.0.0.0 for all`}`,
  ENOTFOUND: (from) => `no address has this name${otherAddress(from)}`,
  EAI_AGAIN: (from) => `the address of this name cannot be looked up now${otherAddress(from)}`,
}

/**
 * Each of them for a moment, so that all that cannot be had are told at once: whoever starts a second copy on a machine would else hear of one after
 * the other, each from a start of its own.
 */
export async function tryListening(all: readonly (Address & { readonly what: string })[]): Promise<void> {
  const tries = await Promise.allSettled(all.map(listenOnce))
  const sentences = tries.flatMap((each) => (each.status === 'rejected' ? [wordsOf(each.reason)] : []))
  if (sentences.length > 0) throw new Trouble(sentences.join('\n'))
}

async function listenOnce({ what, ...at }: Address & { readonly what: string }): Promise<void> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => reject(cannotListen(what, at, cause)))
    server.listen(at.port, at.host, resolve)
  })
  await new Promise((resolve) => server.close(resolve))
}
