// `posthorn backup` and `posthorn restore`: everything in the database as one file, and back.
import type { Command } from 'commander'
import { backUp, restoreFrom } from '../store/backup.ts'
import { stopAfterRestore } from '../store/fence.ts'
import type { Desk } from './tools.ts'

export function backupCommands(program: Command, desk: Desk): void {
  program
    .command('backup')
    .description('write everything in the database into one file, while the service runs')
    .argument('<file>', 'is replaced when the new one is whole')
    .action((file: string) =>
      desk.withExisting(async ({ connection }) => {
        const { tables, rows, takenAt } = await backUp(connection, file)
        desk.show({ file, tables, rows, takenAt }, () =>
          [
            `${file} has ${rows} rows as of ${takenAt.toISOString()}.`,
            'It holds mail and sealed secrets: keep it where only you can read it. The key that opens the secrets is not in it:',
            'keep POSTHORN_SECRET_KEY, or the file secret-key of the data folder, in another place.',
          ].join('\n'),
        )
      }),
    )
  program
    .command('restore')
    .description(
      'put a backup into an empty database; nothing is sent until `posthorn recover` says what has been sent since',
    )
    .argument('<file>')
    .action((file: string) =>
      desk.with(async ({ connection, db }) => {
        const { tables, rows, takenAt } = await restoreFrom(connection, file)
        await stopAfterRestore(db)
        desk.show({ file, tables, rows, takenAt }, () =>
          [
            `The database is as of ${takenAt.toISOString()}: ${rows} rows.`,
            'What was sent after that moment is not known here. Read docs/restore.md, then: posthorn recover --help',
          ].join('\n'),
        )
      }),
    )
}
