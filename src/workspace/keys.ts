// API keys: made, listed and revoked. Who holds one is asked by every request (principals.ts).
import { randomUUIDv7 } from 'node:crypto'
import { shown, type Given } from '../base/given.ts'
import { hashSecret, makeApiKey } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { scopes } from '../domain/scopes.ts'
import { insertKey, listKeyRows, makeRoomForKey, revokeKeyRow, workspaceOfKey, type KeyRow } from '../store/api-keys.ts'
import { listMadeByKey, type MadeRow } from '../store/made-by-key.ts'
import { databaseNow, type Db } from '../store/database.ts'
import { lockMembers } from '../store/members.ts'
import { audited, stillBy, type By } from './by.ts'
import { withdrawInvitationsOf } from './members.ts'
import { Mistake, notThere, parseId, parseName } from './mistake.ts'

export type ApiKey = Given<KeyRow>

/** A key that has ended, and what outlives it: made by it, or by what it made. */
export interface RevokedKey extends ApiKey {
  readonly stillValid?: readonly MadeRow[]
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
  if (wanted.length === 0) throw new Mistake('A key needs at least one scope.', { field: 'scopes' })
  const wrong = wanted.find((scope) => !(scopes as readonly string[]).includes(scope))
  if (wrong !== undefined)
    throw new Mistake(`There is no scope "${wrong}"; there are ${scopes.join(', ')}.`, { field: 'scopes' })
  if (wish.expiresAt !== undefined && wish.expiresAt <= (await databaseNow(db)))
    throw new Mistake('A key must expire in the future.', { field: 'expiresAt' })
  const key = makeApiKey()
  const row = await insertKey(db, workspace, {
    id: randomUUIDv7(),
    name: parseName(wish.name, 'key'),
    prefix: key.slice(0, prefixCharacters),
    secretHash: hashSecret(key),
    scopes: wanted,
    expiresAt: wish.expiresAt ?? null,
  })
  return { ...shown(row), key }
}

/** A key never gets a scope that its maker lacks, nor a later end. */
export function createKeyFor(
  { db }: { readonly db: Db },
  by: By,
  wish: KeyWish,
): Promise<ApiKey & { readonly key: string }> {
  return audited(
    db,
    by,
    'key.created',
    async (tx) => {
      const { now, end } = await stillBy(tx, by, 'keys.write')
      const lacked = wish.scopes.filter((scope) => !now.scopes.has(scope)).join(', ')
      if (lacked !== '')
        throw new Mistake(`You cannot give the scope ${lacked.slice(0, 200)}: you do not have it yourself.`, {
          code: 'insufficient_scope',
          field: 'scopes',
        })
      const wanted = withinItsMaker(wish, end)
      await makeRoomForKey(tx, by.workspaceId, limits.keysPerWorkspaceMax)
      if ((await listKeyRows(tx, by.workspaceId)).length >= limits.keysPerWorkspaceMax)
        throw new Mistake(`A workspace has at most ${limits.keysPerWorkspaceMax} keys.`, { code: 'conflict' })
      return createKey(tx, by.workspaceId, wanted)
    },
    ({ id, name, scopes }) => ({ target: id, facts: { name, scopes } }),
  )
}

/** A key ends no later than the key that makes it: otherwise whoever holds that one for a day would hold a key for ever. */
function withinItsMaker(wish: KeyWish, end: Date | undefined): KeyWish {
  if (end === undefined) return wish
  if (wish.expiresAt !== undefined && wish.expiresAt > end)
    throw new Mistake(
      `Your own key ends at ${end.toISOString()}, and a key that it makes no later: choose an earlier "expiresAt", or leave it out.`,
      { field: 'expiresAt' },
    )
  return { ...wish, expiresAt: wish.expiresAt ?? end }
}

/** Invitations that it made go with it; keys and the like stay, and are named. Those are looked up after the commit: that may take long, or fail. */
export async function revokeKeyFor({ db }: { readonly db: Db }, by: By, id: string): Promise<RevokedKey> {
  const key = await audited(
    db,
    by,
    'key.revoked',
    async (tx) => {
      await lockMembers(tx, by.workspaceId)
      const row = await revokeKeyRow(tx, by.workspaceId, id)
      if (row === undefined) throw notThere('API key')
      await withdrawInvitationsOf(tx, by, `key:${row.id}`)
      return shown(row)
    },
    ({ name }) => ({ target: id, facts: { name } }),
  )
  const made = await listMadeByKey(db, by.workspaceId, key.id).catch((error: unknown) => {
    throw new Mistake('The key is revoked. What it made could not be looked up: revoke it once more to hear of that.', {
      code: 'service_unavailable',
      retryAfterSeconds: 3,
      why: String(error),
    })
  })
  return { ...key, ...(made.length > 0 && { stillValid: made }) }
}

export async function listKeys(db: Db, workspace: WorkspaceId): Promise<ApiKey[]> {
  return (await listKeyRows(db, workspace)).map(shown)
}

/** Of which workspace it is, for those who may look into all of them. */
export async function whoseKey(db: Db, text: string): Promise<WorkspaceId> {
  const id = parseId(text, 'key')
  const workspace = await workspaceOfKey(db, id)
  if (workspace === undefined) throw new Mistake(`There is no key ${id}.`)
  return workspace
}
