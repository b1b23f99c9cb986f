// API keys: made, listed, revoked, and asked for by every request. Answers are remembered for less than a second and forgotten at once
// when anything they depend on changes, so a revoked key is refused on every node (decisions H).
import { hash, randomUUIDv7 } from 'node:crypto'
import type { Log } from '../base/log.ts'
import { hashSecret, looksLikeApiKey, makeApiKey } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Principal } from '../domain/submission.ts'
import { findHolder, insertKey, listKeyRows, noteUse, revokeKeyRow, workspaceOfKey } from '../store/access.ts'
import type { HolderRow, KeyRow } from '../store/access.ts'
import { listen } from '../store/database.ts'
import type { Connection, Db } from '../store/database.ts'
import { Mistake, parseId, parseName } from './mistake.ts'

const readAndWrite = [
  'domains',
  'mailboxes',
  'suppressions',
  'webhooks',
  'keys',
  'smtp-credentials',
  'members',
  'workspace',
]

/** Specification 5, decisions H. */
const scopes: readonly string[] = [
  'mail.send',
  'mail.status.read',
  'mail.read',
  ...readAndWrite.flatMap((name) => [`${name}.read`, `${name}.write`]),
  'usage.read',
  'audit.read',
]

export interface ApiKey {
  readonly id: string
  readonly name: string
  /** The visible beginning. */
  readonly prefix: string
  readonly scopes: readonly string[]
  readonly createdAt: Date
  readonly lastUsedAt?: Date
  readonly expiresAt?: Date
  readonly revokedAt?: Date
}

export interface KeyWish {
  readonly name: string
  readonly scopes: readonly string[]
  readonly expiresAt?: Date
}

const prefixCharacters = 10

/** `key` is the secret: nobody can see it again. */
export async function createKey(
  db: Db,
  workspace: WorkspaceId,
  wish: KeyWish,
): Promise<ApiKey & { readonly key: string }> {
  const wanted = [...new Set(wish.scopes)]
  if (wanted.length === 0) throw new Mistake('A key needs at least one scope.')
  const wrong = wanted.find((scope) => !scopes.includes(scope))
  if (wrong !== undefined) throw new Mistake(`There is no scope "${wrong}"; there are ${scopes.join(', ')}.`)
  const key = makeApiKey()
  const row = await insertKey(db, workspace, {
    id: randomUUIDv7(),
    name: parseName(wish.name, 'key'),
    prefix: key.slice(0, prefixCharacters),
    secretHash: hashSecret(key),
    scopes: wanted,
    expiresAt: wish.expiresAt ?? null,
  })
  return { ...presentKey(row), key }
}

export async function listKeys(db: Db, workspace: WorkspaceId): Promise<ApiKey[]> {
  return (await listKeyRows(db, workspace)).map(presentKey)
}

/** A key that is revoked already stays as it is. */
export async function revokeKey(db: Db, text: string): Promise<ApiKey> {
  const id = parseId(text, 'key')
  const workspace = await workspaceOfKey(db, id)
  const row = workspace === undefined ? undefined : await revokeKeyRow(db, workspace, id)
  if (row === undefined) throw new Mistake(`There is no key ${id}.`)
  return presentKey(row)
}

function presentKey(row: KeyRow): ApiKey {
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    scopes: row.scopes,
    createdAt: row.created_at,
    ...(row.last_used_at !== null && { lastUsedAt: row.last_used_at }),
    ...(row.expires_at !== null && { expiresAt: row.expires_at }),
    ...(row.revoked_at !== null && { revokedAt: row.revoked_at }),
  }
}

export interface Authenticator {
  /** Undefined where the key is unknown, revoked or expired. Throws when the database cannot tell. */
  authenticate(secret: string): Promise<Principal | undefined>
  stop(): Promise<void>
}

interface Remembered {
  readonly principal: Principal
  /** On the clock of `performance.now()`. */
  readonly until: number
}
interface Asked {
  readonly since: number
  readonly answer: Promise<Principal | undefined>
}

/** `publicUrl` stands before upgrade URLs that are paths. */
export function makeAuthenticator(tools: {
  readonly db: Db
  readonly connection: Connection
  readonly log: Log
  readonly publicUrl: string
}): Authenticator {
  const { db, log } = tools
  const remembered = new Map<string, Remembered>()
  const asked = new Map<string, Asked>()
  const notes = new Set<Promise<void>>()
  /** Counts changes of access: what was asked before one is not remembered after it. */
  let changes = 0

  const ears = listen(tools.connection, 'posthorn_access', () => {
    changes++
    remembered.clear()
    asked.clear()
  })

  const note = (row: HolderRow): void => {
    const noting: Promise<void> = noteUse(db, row.workspace_id, row.id)
      .catch((error: unknown) => log.fault('keys: when a key was used could not be written down', error))
      .finally(() => notes.delete(noting))
    notes.add(noting)
  }

  const ask = async (secretHash: string, since: number): Promise<Principal | undefined> => {
    const before = changes
    const row = await findHolder(db, Buffer.from(secretHash, 'hex'))
    if (row === undefined) return undefined
    if (row.unseen) note(row)
    const principal = presentHolder(row, tools.publicUrl)
    if (changes === before) {
      // From the start of the question: how old its answer is by now, nobody knows better.
      const until = since + Math.min(limits.principalCacheMs, row.expires_in_ms ?? Infinity)
      remembered.delete(secretHash)
      remembered.set(secretHash, { principal, until })
      if (remembered.size > limits.principalsMax) remembered.delete(remembered.keys().next().value as string)
    }
    return principal
  }

  const share = (secretHash: string, since: number): Promise<Principal | undefined> => {
    const answer = ask(secretHash, since).finally(() => {
      if (asked.get(secretHash)?.answer === answer) asked.delete(secretHash)
    })
    asked.set(secretHash, { since, answer })
    return answer
  }

  return {
    authenticate: async (secret) => {
      if (!looksLikeApiKey(secret)) return undefined
      const secretHash = hash('sha256', secret)
      const now = performance.now()
      const known = remembered.get(secretHash)
      if (known !== undefined && now < known.until) return known.principal
      const question = asked.get(secretHash)
      // An old question may have been answered before the key was revoked.
      if (question !== undefined && now - question.since < limits.principalCacheMs) return question.answer
      return share(secretHash, now)
    },
    stop: async () => {
      await ears.stop()
      await Promise.all([...notes, ...[...asked.values()].map(({ answer }) => answer.catch(() => undefined))])
    },
  }
}

function presentHolder(row: HolderRow, publicUrl: string): Principal {
  const url = row.upgrade_url
  return {
    keyId: row.id,
    workspaceId: row.workspace_id,
    scopes: new Set(row.scopes),
    blocked: row.blocked,
    apiSending: row.api_sending,
    ...(url !== null && { upgradeUrl: url.startsWith('/') ? publicUrl + url : url }),
  }
}
