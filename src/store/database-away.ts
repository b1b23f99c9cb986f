// What an operator reads where the database cannot be reached, or has gone: what was said, and the way out.
import { wordsOf } from '../base/trouble.ts'
import { isNoAnswer, sqlState } from './database.ts'

/** `embedded`: the database is our own, so no setting leads to it. */
export function awayWords(error: unknown, embedded: boolean): string {
  const [words, state] = [wordsOf(error), sqlState(error)]
  const open = waysOut.filter(([, way]) => !embedded || !way.includes('DATABASE_URL'))
  const look = embedded ? 'postgresql.log in the data folder says why.' : 'look at DATABASE_URL (docs/config.md).'
  const [, way = `the database cannot be reached; ${look}`] =
    open.find(([said]) => said.test(words)) ?? open.find(([, , known]) => state !== undefined && known === state) ?? []
  return `${words}: ${way}`
}

/**
 * The same for whoever may ask, strangers too: no name and no word of the server's, and what it is that keeps us out. By its code: it may speak another
 * language (`lc_messages`).
 */
export function awayInShort(error: unknown): string {
  const state = sqlState(error) ?? ''
  const [, why] =
    shortly.find(([code]) => state.startsWith(code)) ?? (isNoAnswer(error) ? ['', 'no answer in time'] : [])
  return why === undefined ? 'not reachable' : `not reachable: ${why}`
}

const shortly: readonly (readonly [code: string, why: string])[] = [
  ['53300', 'no connection is left there'],
  ['57P03', 'it is starting up, recovering or going down'],
  ['28', 'it refuses our login'],
  ['3D', 'there is no such database'],
  ['531', 'its disk is full'],
  ['532', 'it is out of memory'],
  ['57014', 'no answer in time'],
]

/** Also what a start is told whose connection a pooler refuses, which knows no more than its own words. */
export const poolerBetween =
  'A pooler (PgBouncer or one like it) stands before PostgreSQL and drops what each session asks for, synchronous_commit and the isolation of transactions too: mail could be lost or sent twice. DATABASE_URL must name PostgreSQL itself; Posthorn keeps its connections together by itself.'

/** By the words, which say most; by the code where the server speaks another language (`lc_messages`). */
const waysOut: readonly (readonly [RegExp, string, string?])[] = [
  [/^unsupported startup parameter|RDS Proxy/, poolerBetween],
  [
    /too many connections for|too many clients|connection slots are reserved/,
    'PostgreSQL has no connection left; raise max_connections, or the limit of the user or the database (a node uses at most 47, README.md), or end what holds them.',
    '53300',
  ],
  [
    /password authentication failed|password must be a (?:non-empty )?string/,
    'PostgreSQL is there and wants the right password; look at user and password in DATABASE_URL (docs/config.md).',
    '28P01',
  ],
  [
    /^role ".*" (?:does not exist|is not permitted to log in)/,
    'PostgreSQL is there, and lets no such user in; make one (create role ... login), or name another in DATABASE_URL.',
  ],
  [
    /^database ".*" does not exist/,
    'PostgreSQL is there; make the database (create database), or name another in DATABASE_URL.',
    '3D000',
  ],
  [
    /^(?:unrecognized configuration parameter|invalid value for parameter|parameter ".*" cannot be |permission denied to set parameter|invalid command-line argument)/,
    'PostgreSQL is there, and does not take a setting that it is asked for; look at options= in DATABASE_URL.',
    '42704',
  ],
  [
    /^permission denied for database/,
    'let the user in (grant connect on database), or name another user in DATABASE_URL.',
    '42501',
  ],
  [
    /pg_hba\.conf/,
    'PostgreSQL is there and does not let this machine in with this user and database; add a line to its pg_hba.conf, or look at DATABASE_URL (sslmode, too).',
    '28000',
  ],
  [
    /does not support SSL connections/,
    'DATABASE_URL asks for TLS (sslmode), and the server has none; turn it on there (ssl = on), or take sslmode away.',
  ],
  [
    /alert (?:certificate|bad certificate|unknown ca)|valid client certificate|^certificate authentication failed/,
    'PostgreSQL does not take the certificate that we show it; look at sslcert and sslkey in DATABASE_URL, whether it has run out, and whether it is for that user.',
  ],
  [
    /certificate (?:has expired|is not yet valid)/,
    "the server's certificate, or that of its authority, has run out, or a clock is wrong; renew it there.",
  ],
  [
    /certificate/,
    "the server's certificate cannot be trusted; in DATABASE_URL, sslrootcert= names the file of its authority, and the host must be one that it is for.",
  ],
  [/^E[A-Z]+: .*, open '/, 'a file that DATABASE_URL names (sslrootcert, sslcert, sslkey) cannot be read.'],
  [
    /No space left on device|Disk quota exceeded/,
    'the disk of the database is full; make room there, and start again.',
    '53100',
  ],
  [
    /(?:statement|lock) timeout|query read timeout/i,
    'PostgreSQL is there, and did not answer in time; look at what it is at, and at who holds a lock there, and start again.',
    '57014',
  ],
  [
    /in a read-only transaction/,
    'PostgreSQL is there and takes nothing, as a standby does; DATABASE_URL must name the primary.',
    '25006',
  ],
  [/commits wait for a synchronous standby/, 'PostgreSQL is there; posthorn doctor tells whom it waits for.'],
  [
    /the database system is /,
    'PostgreSQL is there and not ready; start again in a moment, or look at its log.',
    '57P03',
  ],
]
