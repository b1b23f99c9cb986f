// What every command works with: the database that the settings name, brought to this release's schema, for as long as the command runs.
import { userInfo } from 'node:os'
import { resolve } from 'node:path'
import { makeLog } from '../base/log.ts'
import { installationKeys } from '../base/installation-key.ts'
import type { Vault } from '../base/secret.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { scopes } from '../domain/scopes.ts'
import type { By } from '../workspace/workspace.ts'
import { limits, publicUrl, type Settings } from '../config.ts'
import type { Connection } from '../store/connection.ts'
import { openDatabase, type Db } from '../store/database.ts'
import { embeddedPostgres, hasCluster } from '../embedded/embedded.ts'
import { openVault } from '../store/mac-root.ts'
import { migrate } from '../store/migrate.ts'
import { makeTargets, makeWebhookDesk, type WebhookDesk } from '../webhooks/webhooks.ts'
import type { Printer } from './print.ts'

export interface Tools {
  readonly connection: Connection
  readonly db: Db
  readonly vault: Vault
  readonly hostname: string
  readonly webhooks: WebhookDesk
  /** Who is at the keyboard, for what is written down about it. */
  readonly actor: string
  /** The same in a workspace, where nothing is refused to them. */
  by(workspace: WorkspaceId): By
  readonly publicUrl: string
  readonly settings: Settings
  /** The schema that the database has now. */
  readonly version: string
}

/** What the commands are given when the program is built. */
export interface Cli extends Printer {
  readonly write: (text: string) => void
  readonly json: boolean
  /** Throws where the environment is wrong. */
  readonly settings: () => Settings
  /**
   * For what may begin an installation, and so for what is set up before it first sends: opens the database, does the work, closes it. Where
   * there is none yet, it is made, and a word on standard error says so.
   */
  with(work: (tools: Tools) => Promise<void>): Promise<void>
  /**
   * For what reads, and what makes no sense without a history: throws where there is no database yet, and makes none. A new and empty
   * installation would otherwise be told as that of the service, whose settings were forgotten.
   */
  withExisting(work: (tools: Tools) => Promise<void>): Promise<void>
  /** The same, for what is done in one workspace. */
  inWorkspace(idOrName: string, work: (tools: Tools, by: By) => Promise<void>): Promise<void>
}

/** `DATABASE_URL` or a data folder with a database in it. */
export const hasDatabase = ({ DATABASE_URL, POSTHORN_DATA_DIR }: Settings): boolean =>
  DATABASE_URL !== undefined || hasCluster(POSTHORN_DATA_DIR)

export const noDatabase = ({ POSTHORN_DATA_DIR }: Settings): string =>
  `There is no database in ${resolve(POSTHORN_DATA_DIR)} yet. For that of a service, give the command the settings of the service, POSTHORN_DATA_DIR or DATABASE_URL above all`

const [answerMs, waitMs] = [60_000, limits.databasePatientWaitMs]

export async function withTools(settings: Settings, work: (tools: Tools) => Promise<void>): Promise<void> {
  await withConnection(settings, async (connection) => {
    const { version } = await migrate(connection, (words) => void process.stderr.write(`posthorn: ${words}\n`))
    const db = openDatabase(connection, { name: 'posthorn command', connectionsMax: 2, answerMs, waitMs })
    try {
      const vault = await openVault(installationKeys(settings), db)
      const timeScale = settings.POSTHORN_TIME_SCALE
      const webhooks = makeWebhookDesk({ db, vault, targets: makeTargets(settings), timeScale })
      const actor = `operator:${userName()}`
      await work({
        connection,
        db,
        vault,
        hostname: settings.POSTHORN_HOSTNAME,
        publicUrl: publicUrl(settings),
        settings,
        webhooks,
        actor,
        by: (workspaceId) => ({ workspaceId, actor, scopes: new Set(scopes) }),
        version,
      })
    } finally {
      await db.close()
    }
  })
}

/** A user id without a name, as in some containers, stands for itself. */
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? 'unknown')
  }
}

/** The embedded database is shared with a running server, or started for this command alone. */
async function withConnection(settings: Settings, work: (connection: Connection) => Promise<void>): Promise<void> {
  if (settings.DATABASE_URL !== undefined) return work({ url: settings.DATABASE_URL })
  const postgres = embeddedPostgres({
    dataDir: settings.POSTHORN_DATA_DIR,
    log: makeLog('error'),
    purpose: 'command',
  })
  const { connection } = await postgres.start()
  try {
    await work(connection)
  } finally {
    await postgres.stop()
  }
}
