// A database of its own for each test, cloned from a template that all migrations have run in once. The cluster is the test run's
// (test/setup.ts); a clone takes tens of milliseconds.
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { Client } from 'pg'
import { inject } from 'vitest'
import type { EmbeddedConnection } from '../../src/embedded/embedded.ts'
import { migrate } from '../../src/store/migrate.ts'

export interface FreshDatabase {
  readonly connection: EmbeddedConnection
  /** Ends every session in it and deletes it. */
  drop(): Promise<void>
}

/** As DATABASE_URL. The socket's folder cannot be a URL's host; PostgreSQL's own reading lets a parameter say it. */
export function urlOf({ host, port, user, password, database }: EmbeddedConnection): string {
  return `postgres://${user}:${encodeURIComponent(password)}@localhost/${database}?host=${encodeURIComponent(host)}&port=${port}`
}

const template = 'posthorn_template'
/** Any number that nothing else here locks: one worker at a time makes or clones the template. */
const templateLock = 7_364_001

/** A migrated, empty database. */
export async function freshDatabase(): Promise<FreshDatabase> {
  return makeDatabase(async (admin, database, cluster) => {
    await admin.query('select pg_advisory_lock($1)', [templateLock]) // the session's end unlocks
    await ensureTemplate(admin, cluster)
    await admin.query(`create database ${database} template ${template}`)
  })
}

/** A database without anything in it, for tests of the migrations themselves, or of an encoding or a language (`made`) that is not the template's. */
export async function emptyDatabase(made?: string): Promise<FreshDatabase> {
  return makeDatabase(async (admin, database) => {
    const other = made === undefined ? '' : `template template0 locale 'C' ${made}`
    await admin.query(`create database ${database} ${other}`)
  })
}

async function makeDatabase(
  make: (admin: Client, database: string, cluster: EmbeddedConnection) => Promise<void>,
): Promise<FreshDatabase> {
  const cluster = await testCluster()
  const database = `test_${randomBytes(8).toString('hex')}`
  await administrate(cluster, (admin) => make(admin, database, cluster))
  return {
    connection: { ...cluster, database },
    drop: () =>
      administrate(cluster, async (admin) => {
        await admin.query(`drop database if exists ${database} with (force)`)
      }),
  }
}

async function ensureTemplate(admin: Client, cluster: EmbeddedConnection): Promise<void> {
  const { rowCount } = await admin.query('select from pg_database where datname = $1', [template])
  if (rowCount === 1) return
  // Under another name until it is whole: a migration that fails must fail in every test, not leave a half template.
  const growing = `${template}_${randomBytes(4).toString('hex')}`
  await admin.query(`create database ${growing}`)
  await migrate({ ...cluster, database: growing })
  await admin.query(`alter database ${growing} rename to ${template}`)
}

async function administrate(cluster: EmbeddedConnection, work: (admin: Client) => Promise<void>): Promise<void> {
  const admin = new Client({ ...cluster, database: 'postgres' })
  admin.on('error', () => undefined) // the query that is under way tells
  await admin.connect()
  try {
    await work(admin)
  } finally {
    await admin.end()
  }
}

/** The cluster of this test run; starts with the first question. */
async function testCluster(): Promise<EmbeddedConnection> {
  const answer = JSON.parse(await text(connect(inject('postgresBroker')))) as
    | { readonly connection: EmbeddedConnection }
    | { readonly trouble: string }
  if ('trouble' in answer) throw new Error(`The tests have no PostgreSQL: ${answer.trouble}`)
  return answer.connection
}
