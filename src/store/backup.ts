// Online backup without PostgreSQL's own tools (operating contract): everything as of one instant, as lines of JSON, compressed (Zstandard,
// RFC 8878). PostgreSQL itself writes and reads the rows, so every value comes back as it was. The installation key is not in it.
import { createWriteStream } from 'node:fs'
import { open, rename, rm, stat, unlink } from 'node:fs/promises'
import { Socket } from 'node:net'
import { hostname } from 'node:os'
import { dirname, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress } from 'node:zlib'
import { Client } from 'pg'
import { to as copyTo } from 'pg-copy-streams'
import { syncFolder } from '../base/folders.ts'
import { Trouble } from '../base/trouble.ts'
import { limits } from '../config.ts'
import { asLine, chunkSize, linesOf, markOf, pieceBytes, readable, readHead, type Head } from './backup-file.ts'
import { ofAnotherCluster, renewMarkText } from './commit-order.ts'
import { serverOf, type Connection } from './connection.ts'
import { datedPartitions, makePartitionsAgain } from './dated-partitions.ts'
import { stopRestored } from './fence.ts'

/** How far one is; called often. */
export interface BackupProgress {
  readonly table: string
  /** Of all tables so far. */
  readonly rows: number
}
export interface RestoreProgress extends BackupProgress {
  /** How much of the file has been read, from 0 to 1. */
  readonly part: number
}

export interface BackupReport {
  readonly tables: number
  readonly rows: number
  readonly takenAt: Date
}

/** Attachments stand there as hexadecimal: the usual level takes eight times as long for it, and makes it larger. */
const fastest = { [constants.ZSTD_c_compressionLevel]: 1 }

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

interface Table {
  readonly name: string
  readonly columns: readonly string[]
  /** Tables that its rows refer to. */
  readonly needs: readonly string[]
}

/** Ordinary tables, and partitioned ones as wholes. The migrator's own are in the head, what retention has taken off is gone. */
const tablesText = `
  select c.relname as name,
         array(select a.attname::text from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                and a.attgenerated = '' order by a.attnum) as columns,
         array(select r.relname::text from pg_constraint f join pg_class r on r.oid = f.confrelid
                where f.conrelid = c.oid and f.contype = 'f' and r.oid <> c.oid) as needs
    from pg_class c
   where c.relnamespace = quote_ident(current_schema())::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
     and c.relname not like 'kysely\\_%' and c.relname not like 'expired\\_%'
   order by c.relname`

/** All tables, those first that others refer to. */
async function tablesOf(client: Client): Promise<Table[]> {
  const { rows: left } = await client.query<Table>(tablesText)
  const placed: Table[] = []
  while (left.length > 0) {
    const next = left.findIndex(({ needs }) => needs.every((name) => placed.some((table) => table.name === name)))
    if (next < 0)
      throw new Error(`these tables refer to each other in a circle: ${left.map(({ name }) => name).join()}`)
    placed.push(...left.splice(next, 1))
  }
  return placed
}

const instants = `
  select to_json(app_now()) #>> '{}' "takenAt",
         ${datedPartitions} partitions`

/** Of this machine: another one has a file of its own under that name. It ends with the session, whatever ends that. */
const claimFile = `select pg_try_advisory_lock(hashtext('posthorn backup'), hashtext($1)) claimed`

/**
 * Writes a backup beside `file` and puts it in its place when it is whole and on the disk. Throws where another one is writing the same: both would be of
 * pieces of each other.
 */
export async function backUp(
  connection: Connection,
  file: string,
  {
    writeTo = createWriteStream,
    told,
  }: { writeTo?: typeof createWriteStream; told?: (at: BackupProgress) => void } = {},
): Promise<BackupReport> {
  // The rename puts a file in place of whatever is there: also of /dev/null, for the whole machine.
  const there = await stat(file).catch(() => undefined)
  if (there?.isFile() === false) {
    const what = there.isDirectory() ? whyUnwritable['EISDIR'] : 'it is a device or the like, and a backup is a file'
    throw new Trouble(`${file} cannot be written: ${what}.`)
  }
  const unfinished = `${file}.unfinished`
  return over(connection, async (client) => {
    const { claimed } = await one<{ claimed: boolean }>(client, claimFile, [`${hostname()} ${resolve(file)}`])
    if (!claimed)
      throw new Trouble(
        `${file} is just being written by another backup: wait until that has ended, or name another file.`,
      )
    // One snapshot for all tables; nobody who sends waits for us. They are held before it is taken: a table that a migration rewrites behind a
    // snapshot is empty to it, and a partition that retention takes off is gone.
    const held = (await tablesOf(client)).map(({ name }) => quoted(name))
    await client.query('begin isolation level repeatable read read only')
    await client.query(`lock table ${held.join(', ')} in access share mode`)
    const head: Head = {
      posthorn: 1,
      migrations: await migrationsOf(client),
      ...(await one<Pick<Head, 'takenAt' | 'partitions'>>(client, instants)),
    }
    const tables = await tablesOf(client)
    let rows = 0
    async function* lines(): AsyncGenerator<Buffer> {
      yield asLine(head)
      for (const table of tables) {
        yield asLine({ table: table.name })
        for await (const piece of linesFrom(client, table)) {
          for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) rows++
          told?.({ table: table.name, rows })
          yield piece
        }
      }
      yield asLine({ end: true, rows })
    }
    try {
      // What is there, cut off or put there by somebody, would keep its rights, its owner and its readers, or lead into another file.
      await unlink(unfinished).catch(unlessAbsent)
      await pipeline(
        Readable.from(inPieces(lines())),
        createZstdCompress({ chunkSize, params: fastest }),
        writeTo(unfinished, { flags: 'wx', mode: 0o600 }),
      )
      const handle = await open(unfinished, 'r+')
      await handle.sync()
      await handle.close()
      await rename(unfinished, file)
      syncName(file)
    } catch (error) {
      await rm(unfinished, { force: true }).catch(() => undefined)
      throw cannotWrite(file, error)
    }
    return { tables: tables.length, rows, takenAt: new Date(head.takenAt) }
  })
}

function unlessAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

/** Older ones are removed when the new one is there: its name, too, must outlast a power cut. Some file systems, such as those of a network, cannot say so. */
function syncName(file: string): void {
  try {
    syncFolder(dirname(resolve(file)))
  } catch (error) {
    if (!['EACCES', 'EBADF', 'EINVAL', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

const whyUnwritable: Readonly<Record<string, string>> = {
  ENOENT: 'its folder does not exist',
  ENOSPC: 'the disk is full',
  EISDIR: 'it is a folder',
}

/** A file's trouble as a sentence; any other stays what it is. */
function cannotWrite(file: string, error: unknown): unknown {
  const { code, syscall, path, dest } = error as NodeJS.ErrnoException & { dest?: string }
  // A write to a full disk names no file.
  if (code !== 'ENOSPC' && (syscall === undefined || (path ?? dest) === undefined)) return error
  return new Trouble(`${file} cannot be written: ${whyUnwritable[code ?? ''] ?? code}.`, { cause: error })
}

async function* inPieces(bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let gathered: Buffer[] = []
  let size = 0
  for await (const some of bytes) {
    gathered.push(some)
    size += some.length
    if (size < pieceBytes) continue
    yield Buffer.concat(gathered)
    gathered = []
    size = 0
  }
  yield Buffer.concat(gathered)
}

/**
 * Its rows as lines, piece by piece as the server sends them: a row of 32 MB, as hexadecimal, is never in one place here. CSV of one column with marks
 * that JSON has not in it is the rows as they are; the format of its own would double each backslash.
 */
function linesFrom(client: Client, { name, columns }: Table): AsyncIterable<Buffer> {
  const rows = `select replace(replace(row_to_json(t)::text, e'\\n', ' '), e'\\r', ' ') from (select ${columns.map(quoted).join(', ')} from ${quoted(name)}) t`
  return client.query(copyTo(`copy (${rows}) to stdout (format csv, delimiter e'\\x01', quote e'\\x02')`))
}

/**
 * Puts a backup into a database that has this release's schema and nothing in it yet, and stops delivery there where there is any message, all
 * or nothing. Rows are written as they were: no trigger fires. Throws one sentence where the file or the database does not fit.
 */
export async function restore(
  connection: Connection,
  file: string,
  told?: (at: RestoreProgress) => void,
): Promise<BackupReport & { readonly stopped: boolean }> {
  return over(connection, async (client) => {
    await client.query('begin')
    // Whoever is just making the first workspace there is waited for.
    await client.query('lock table workspaces in share row exclusive mode')
    const tables = await tablesOf(client)
    await refuseUsed(client)
    const read = { bytes: 0 }
    const lines = linesOf(file, read)
    const head = await readHead(lines, file)
    const other = whyOtherSchema(head.migrations, await migrationsOf(client))
    if (other !== undefined) throw new Error(other)
    await makeRoom(client, tables, head)
    const { size } = await stat(file)
    const rows = await fill(client, tables, lines, file, (at) => told?.({ ...at, part: read.bytes / size }))
    for (const { name } of tables) await client.query(`alter table ${quoted(name)} enable trigger user`)
    await client.query(renewMarkText)
    const { rowCount } = await client.query(stopRestored.text)
    await client.query('commit')
    return { tables: tables.length, rows, takenAt: new Date(head.takenAt), stopped: rowCount !== 0 }
  })
}

/** Why a backup of a schema that these migrations have made does not go into one of those; undefined where it does. */
export function whyOtherSchema(backup: readonly string[], release: readonly string[]): string | undefined {
  if (backup.join() === release.join()) return undefined
  return `The backup has the schema ${backup.at(-1) ?? ''}, and this release ${release.at(-1) ?? ''}: restore it with the release that made it, then update.`
}

/** What migrations have put there makes way for what the backup says. */
async function makeRoom(client: Client, tables: readonly Table[], { partitions }: Head): Promise<void> {
  await client.query(`truncate ${tables.map(({ name }) => quoted(name)).join(', ')}`)
  await makePartitionsAgain(client, partitions)
  for (const { name } of tables) await client.query(`alter table ${quoted(name)} disable trigger user`)
}

async function fill(
  client: Client,
  tables: readonly Table[],
  lines: AsyncIterator<string>,
  file: string,
  told: (at: BackupProgress) => void,
): Promise<number> {
  let table: Table | undefined
  let page: string[] = []
  let pageBytes = 0
  let rows = 0
  const flush = async () => {
    if (table !== undefined && page.length > 0) {
      await insertPage(client, table, page)
      told({ table: table.name, rows: (rows += page.length) })
    }
    page = []
    pageBytes = 0
  }
  for (;;) {
    const { value: line, done } = await lines.next()
    if (done === true) throw new Error(`${file} is cut off: its end is missing. Copy it again, or take an older one.`)
    const mark = markOf(line)
    if (mark === undefined) {
      page.push(readable(line))
      pageBytes += line.length
      if (page.length >= limits.restoreRowsPerPage || pageBytes >= limits.restorePageBytes) await flush()
      continue
    }
    await flush()
    if ('end' in mark) {
      if (mark.rows !== rows)
        throw new Error(`${file} is damaged: it has ${rows} of ${mark.rows} rows. Copy it again, or take an older one.`)
      return rows
    }
    table = tables.find(({ name }) => name === mark.table)
    if (table === undefined) throw new Error(`${file} has a table that this release does not know: ${mark.table}.`)
  }
}

async function insertPage(client: Client, { name, columns }: Table, page: readonly string[]): Promise<void> {
  const list = columns.map(quoted).join(', ')
  await client.query(
    `insert into ${quoted(name)} (${list})
     select ${name === 'events' ? list.replace('"tx"', ofAnotherCluster('"message_id"')) : list} from unnest($1::text[]) with ordinality given (line, n)
       cross join lateral json_populate_record(null::${quoted(name)}, given.line::json)`,
    [page],
  )
}

/** A database with a workspace is somebody's. */
async function refuseUsed(client: Client): Promise<void> {
  const { used } = await one<{ used: boolean }>(client, 'select exists (select from workspaces) used')
  if (used)
    throw new Error(
      'A backup is restored into an empty database, and this one has workspaces: name a new POSTHORN_DATA_DIR, or another DATABASE_URL.',
    )
}

async function migrationsOf(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>('select name from kysely_migration order by name')
  return rows.map(({ name }) => name)
}

async function one<Row extends object>(client: Client, text: string, values: unknown[] = []): Promise<Row> {
  return (await client.query<Row>(text, values)).rows[0] as Row
}

async function over<T>(connection: Connection, work: (client: Client) => Promise<T>): Promise<T> {
  const socket = new Socket()
  const settings = { application_name: 'posthorn backup', stream: () => socket }
  const client = new Client({ ...serverOf(connection), ...settings })
  client.on('error', () => undefined) // the query that waits for an answer hears it
  await client.connect()
  try {
    return await work(client)
  } catch (error) {
    // A server that is still sending rows would not hear a goodbye.
    socket.destroy()
    throw error
  } finally {
    await client.end().catch(() => undefined)
  }
}
