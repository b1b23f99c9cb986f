// `posthorn rotate-key`: a new installation key, and everything that the old one sealed sealed anew. It may be cut off at any moment, and is
// then begun again; the old key opens until --finish has seen that nothing needs it (docs/production.md).
import type { Command } from 'commander'
import { addKeyToFile, dropOldKeysFromFile, holdKeyFile, installationKeys } from '../base/installation-key.ts'
import type { Vault } from '../base/secret.ts'
import type { Settings } from '../config.ts'
import { writeAudit } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { resealMacRoot } from '../store/mac-root.ts'
import { resealAll } from '../store/sealed.ts'
import { Mistake } from '../workspace/workspace.ts'
import { facts } from './print.ts'
import type { Cli, Tools } from './tools.ts'

export function rotateKeyCommand(program: Command, cli: Cli): void {
  program
    .command('rotate-key')
    .description(
      'change the installation key and seal every secret anew, while the service runs; then again with --finish',
    )
    .option('--finish', 'see that nothing needs the old key, and forget it')
    .action(({ finish }: { finish?: true }) => cli.withExisting((tools) => alone(cli, tools, finish === true)))
}

/** Two at once, over one file: the second one is refused. Where the keys are set, nothing here changes them. */
async function alone(cli: Cli, tools: Tools, finish: boolean): Promise<void> {
  const inFile = tools.settings.POSTHORN_SECRET_KEY === undefined
  const hold = inFile ? holdKeyFile(tools.settings) : undefined
  if (inFile && hold === undefined)
    throw new Mistake('Another posthorn rotate-key is changing the installation key: wait until that has ended.')
  try {
    await rotate(cli, tools, finish, inFile)
  } finally {
    hold?.close()
  }
}

async function rotate(
  cli: Cli,
  { db, vault, settings, actor }: Tools,
  finish: boolean,
  inFile: boolean,
): Promise<void> {
  const before = installationKeys(settings).all().length
  if (!finish) begin(settings, inFile)
  // Before it, for it may be cut off; whoever begins it again is told of, too.
  const action = `installation_key.${finish ? 'rotation_finished' : 'rotated'}`
  if (!finish || before > 1) await writeAudit(db, { actor, action })
  const done = await sealAnew(db, vault)
  if (finish && inFile) dropOldKeysFromFile(settings)
  cli.show({ ...done, finished: finish }, () =>
    [
      facts({ 'secrets looked at': done.seen, 'sealed anew': done.resealed }),
      before === 1 && finish ? noOldKey : next(finish, inFile),
    ].join('\n'),
  )
}

function begin(settings: Settings, inFile: boolean): void {
  if (inFile) addKeyToFile(settings)
  else if (settings.POSTHORN_SECRET_KEYS_ACCEPTED.length === 0)
    throw new Mistake(
      'Set POSTHORN_SECRET_KEY to a new key and POSTHORN_SECRET_KEYS_ACCEPTED to the old one first, on every node; docs/production.md says in which order.',
    )
}

/** Until a walk finds nothing that an older key sealed. */
async function sealAnew(db: Db, vault: Vault): Promise<{ readonly seen: number; readonly resealed: number }> {
  let resealed = (await resealMacRoot(db, vault)) ? 1 : 0
  for (;;) {
    const walk = await resealAll(db, vault)
    resealed += walk.resealed
    if (walk.resealed === 0) return { seen: walk.seen + 1, resealed }
  }
}

const noOldKey = 'There is no old key: this one alone opens. To change it: posthorn rotate-key, without --finish.'

function next(finished: boolean, inFile: boolean): string {
  if (!finished)
    return inFile
      ? 'The old key still opens. Put the file secret-key into your backup, then: posthorn rotate-key --finish'
      : 'The old key still opens. When every node has the new one: posthorn rotate-key --finish'
  return inFile
    ? 'The old key is forgotten. Backups of the database from before need it: keep it as long as you keep them.'
    : 'Nothing needs the old key any more: take POSTHORN_SECRET_KEYS_ACCEPTED away. Backups from before need it: keep it as long as you keep them.'
}
