// `posthorn backup` and `posthorn restore`: everything in the database as one file, and back.
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { createZstdDecompress } from 'node:zlib'
import type { Command } from 'commander'
import { installationKeys } from '../base/installation-key.ts'
import { say } from '../base/log-lines.ts'
import { wordsOf } from '../base/trouble.ts'
import { backUp, restore, whyOtherSchema } from '../store/backup.ts'
import { headOf } from '../store/backup-file.ts'
import { databaseNow, type Db } from '../store/database.ts'
import { noteBackup } from '../store/last-backup.ts'
import { openVault, WrongInstallationKey } from '../store/mac-root.ts'
import { releaseMigrations } from '../store/migrate.ts'
import { Mistake } from '../workspace/workspace.ts'
import { progress } from './progress.ts'
import type { Cli } from './tools.ts'

export function backupCommand(program: Command, cli: Cli): void {
  program
    .command('backup')
    .description('write everything in the database into one file, while the service runs')
    .argument('[file]', 'is replaced when the new one is whole')
    .option('--noted', 'write no file: only note that other tools have just made a backup of the database')
    .action((file: string | undefined, { noted = false }: { noted?: boolean }, command: Command) => {
      if ((file === undefined) !== noted) command.error('error: give either a file or --noted')
      // Whoever means standard output would keep the words that are printed beside a file of this name.
      if (file === '-') command.error('error: a backup is a file: give its name')
      return cli.withExisting(async ({ connection, db }) => {
        if (file === undefined) {
          await noteBackup(db, undefined)
          return cli.show({ noted: true }, () => 'Noted: there is a backup as of now.')
        }
        const tell = progress(cli)
        const { tables, rows, takenAt } = await backUp(connection, file, {
          told: ({ table, rows: soFar }) => tell(() => `${soFar} rows so far; now ${table}`),
        })
        await noteSurely(db, takenAt, file)
        cli.show({ file, tables, rows, takenAt }, () =>
          [
            `${file} has ${rows} rows as of ${takenAt.toISOString()}.`,
            'It holds mail and sealed secrets: keep it where only you can read it. The key that opens the secrets is not in it:',
            'keep POSTHORN_SECRET_KEY, or the file secret-key of the data folder, in another place.',
          ].join('\n'),
        )
      })
    })
}

export function restoreCommand(program: Command, cli: Cli): void {
  program
    .command('restore')
    .description(
      'put a backup into an empty database; nothing is sent until `posthorn recover` says what has been sent since',
    )
    .argument('<file>')
    .action(async (file: string) => {
      await refuseUnfit(file)
      await cli.with(async ({ connection, db, settings }) => {
        const tell = progress(cli)
        const { tables, rows, takenAt, stopped } = await restore(connection, file, (at) =>
          tell(() => `${at.rows} rows, ${Math.floor(at.part * 100)} % of the file; now ${at.table}`),
        )
        // Where the clock was ahead that it was taken by: recover takes no time that is still to come here, and an earlier one is as safe.
        const since = new Date(Math.min(takenAt.getTime(), (await databaseNow(db)).getTime()))
        const decide = [
          'What was sent after that moment is not known here, so nobody delivers until you decide. Read docs/restore.md, then run one of these:',
          `  ./bin/posthorn recover --assume-sent-since ${since.toISOString()}`,
          '  ./bin/posthorn recover --resume',
        ]
        cli.show({ file, tables, rows, takenAt, stopped }, () =>
          [`The database is as of ${takenAt.toISOString()}: ${rows} rows.`, ...(stopped ? decide : [])].join('\n'),
        )
        // The key that opened the empty database was that one's own; what every start opens now came with the backup.
        await openVault(installationKeys(settings), db).catch((error: unknown) => {
          throw error instanceof WrongInstallationKey ? new Mistake(`The rows are back, but ${error.message}`) : error
        })
      })
    })
}

/** The file is whole, whatever becomes of this: a standby, for one, takes no note. */
async function noteSurely(db: Db, takenAt: Date, file: string): Promise<void> {
  try {
    await noteBackup(db, { takenAt, bytes: (await stat(file)).size })
  } catch (error) {
    say(2, `posthorn: the backup is whole, but the database could not note it: ${wordsOf(error)}\n`)
  }
}

const headStart = '{"posthorn":'
/** Hundreds of migrations. */
const headCharactersMax = 256 * 1024

/**
 * Reads the whole file before a database is made for it: little work beside writing its rows, of which the restore itself makes sure. One of another
 * release is refused here already: the release that made it could not use a database that this one has migrated.
 */
async function refuseUnfit(file: string): Promise<void> {
  const bytes = createReadStream(file)
  let head = ''
  const no = new Mistake(`${file} is no backup of Posthorn.`)
  try {
    await pipeline(bytes, createZstdDecompress(), async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks)
        if (!head.includes('\n') && head.length < headCharactersMax)
          head += chunk.toString('latin1', 0, headCharactersMax)
    })
  } catch (error) {
    const { code, syscall, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new Mistake(`There is no file ${file}.`)
    if (syscall !== undefined) throw new Mistake(`${file} cannot be read: ${message}.`)
    // Of a short one nothing comes out, but its first four octets have been found right.
    const beginsRight = head === '' ? bytes.bytesRead >= 4 : head.startsWith(headStart)
    if (code === 'Z_BUF_ERROR' && beginsRight)
      throw new Mistake(
        `${file} is cut off: it begins as a backup does, and its end is missing. Copy it again, or take an older one.`,
      )
    throw head.startsWith(headStart)
      ? new Mistake(`${file} is damaged: ${message}. Copy it again, or take an older one.`)
      : no
  }
  if (!head.startsWith(headStart)) throw no
  const read = headOf(head.slice(0, head.indexOf('\n')))
  const other = read && whyOtherSchema(read.migrations, await releaseMigrations())
  if (other !== undefined) throw new Mistake(other)
}
