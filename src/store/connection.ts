// Where PostgreSQL is and how each line to it is opened: what a session asks for whatever administrators have set, and lines that end when nobody says
// goodbye.
import { Socket } from 'node:net'
import { userInfo } from 'node:os'
import { Client, type ClientConfig } from 'pg'
import { limits } from '../config.ts'
import type { EmbeddedConnection } from '../embedded/embedded.ts'

/** Where the database is: a URL, or the embedded one's socket. */
export type Connection = ({ readonly url: string } | EmbeddedConnection) & {
  /** From there on nobody waits for this database: what is under way fails as if its line were lost, and so does what comes later. */
  readonly patience?: AbortSignal
}

/**
 * What an administrator may have set otherwise for the database or the role. Under a stricter isolation an arm that waited for its row would not see
 * the suppression that was committed meanwhile; the driver reads times in ISO alone; times that
 * are written as JSON are told in UTC, and a day has 24 hours where a zone has summer time; a backslash in a text of our statements is one, and a pattern
 * finds what it says; a backup, or a migration, takes as long as it takes; and that a commit was let go without its standby is told in a warning (`listenForLetGo`).
 */
const ofAdministrators =
  '-c synchronous_commit=on -c client_encoding=UTF8 -c DateStyle=ISO -c TimeZone=UTC -c standard_conforming_strings=on -c default_transaction_isolation=read\\ committed -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0 -c client_min_messages=warning'

/**
 * A line that lies idle while its other end vanishes is found out within half a minute, by the kernel: a pool would ask one after the other of
 * its dead lines, and wait for each as long as for a slow statement; a backup would wait for hours.
 */
const keptAlive = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 }

/**
 * The same from the other side. A machine that vanishes (its power, its network) says no goodbye, and by itself a server asks after two hours whether
 * somebody is there: until then the sessions of such a node would hold their places among `max_connections`, and their locks. A Unix socket needs none of it.
 */
const askedAfter = '-c tcp_keepalives_idle=20 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=4'
const ourSession = `${ofAdministrators} ${askedAfter}`

/**
 * Where to connect, with every part said, so that PGHOST, PGPORT, PGSSLMODE and the like in the environment mean nothing here. Only a
 * password that the URL leaves out may come from PGPASSWORD or ~/.pgpass, as for psql.
 */
export function serverOf(connection: Connection, more: readonly string[] = []): ClientConfig {
  const options = [ourSession, ...more].join(' ')
  const plain = { ssl: false, sslnegotiation: 'postgres' as const, options, ...keptAlive }
  if (!('url' in connection)) {
    const { host, port, user, password, database } = connection
    return { ...plain, host, port, user, password, database }
  }
  // `postgres://user:password@/database?host=/folder`, PostgreSQL's way to name a socket, is no URL without a host.
  const url = new URL(connection.url.replace('@/', '@localhost/'))
  const say = (name: string, value: string): void => {
    if (!url.searchParams.get(name)) url.searchParams.set(name, value)
  }
  say('host', decodeURIComponent(url.hostname.replace(/^\[|\]$/g, '')) || 'localhost')
  say('port', url.port || '5432')
  say('user', decodeURIComponent(url.username) || userInfo().username)
  // The driver takes a host with percent codes for a part of the name, and leaves codes for / & : and the like in it.
  const name = decodeURIComponent(url.pathname.slice(1)) || (url.searchParams.get('user') ?? '')
  url.hostname = 'localhost'
  url.pathname = `/${encodeURI(name)}`
  // As PostgreSQL's own clients read it, and no file: the certificates of well-known authorities, and nothing less than the whole check.
  if (url.searchParams.get('sslrootcert') === 'system') {
    url.searchParams.delete('sslrootcert')
    url.searchParams.set('sslmode', 'verify-full')
  }
  // What the driver means by them today, said in the one word that it does not warn of.
  const mode = url.searchParams.get('sslmode') ?? ''
  if (['prefer', 'require', 'verify-ca'].includes(mode) && !url.searchParams.has('uselibpqcompat'))
    url.searchParams.set('sslmode', 'verify-full')
  // The URL's own come first: what is said later counts.
  const theirs = url.searchParams.get('options') ?? ''
  url.searchParams.set('options', `${theirs} ${plain.options}`.trim())
  const enableChannelBinding = ['prefer', 'require'].includes(url.searchParams.get('channel_binding') ?? '')
  return { ...plain, enableChannelBinding, connectionString: url.href }
}

/**
 * The driver reads the files that a URL names (our certificate, its authority's) for each line anew, as it makes the client: renewed ones count without a
 * restart. One that is not there just then, because it is being renewed, would be thrown out of a timer, or out of the end of another line, and end the
 * process, or take a statement's answer away. So it is a line that breaks, with those words.
 */
export function clientOf(config: ClientConfig): Client {
  try {
    return new Client(config)
  } catch (error) {
    const { connectionString: _unread, ...rest } = config
    return new Client({ ...rest, stream: () => brokenBy(error) })
  }
}

function brokenBy(error: unknown): Socket {
  const socket = new Socket()
  socket.connect = () => socket.destroy(error instanceof Error ? error : new Error(String(error)))
  return socket
}

/** The same for a pool, which says `new`. */
export const Line = function (config: ClientConfig) {
  return clientOf(config)
} as unknown as new () => Client

/**
 * The lines of one pool, for when PostgreSQL does not say goodbye: a server that hangs, or a host that is gone, never closes what we
 * have closed, and the driver waits for it without end.
 */
export function linesOf({ patience }: Connection) {
  const open = new Set<Socket>()
  const cut = () => {
    for (const socket of open) socket.destroy()
  }
  patience?.addEventListener('abort', cut, { once: true })
  return {
    stream: () => {
      const socket = new Socket()
      open.add(socket)
      socket.once('close', () => open.delete(socket))
      if (patience?.aborted === true) process.nextTick(() => socket.destroy())
      return socket
    },
    /** Resolves when the goodbye has, within bounds. */
    ended: async (goodbye: Promise<void>) => {
      const late = setTimeout(cut, limits.databaseGoodbyeMs)
      await goodbye
      clearTimeout(late)
      cut() // a login that was given up half-way is nobody's any more, and the server would wait a minute for its rest
      patience?.removeEventListener('abort', cut)
    },
  }
}
