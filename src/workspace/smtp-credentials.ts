// SMTP credentials (decisions F): made, listed and revoked. The username is visible, the password is random, shown once, and kept as a
// keyed SHA-256; a slow hash is not needed, and must not block the server. Who holds one is asked by every session (submitters.ts).
import { createHmac, randomBytes, randomUUIDv7 } from 'node:crypto'
import { shown, type Given } from '../base/given.ts'
import { makePassword, type Vault } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import {
  insertCredential,
  listCredentialRows,
  makeRoomForCredential,
  revokeCredentialRow,
  workspaceOfCredential,
  type CredentialRow,
} from '../store/smtp-credentials.ts'
import { audited, stillBy, type By } from './by.ts'
import { Mistake, notThere, parseId, parseName } from './mistake.ts'

export type SmtpCredential = Given<CredentialRow>

const passwordBytes = 24

/** How a password is kept, or compared with what is kept. */
export function passwordHasher(vault: Vault): (username: string, password: string) => Buffer {
  const key = vault.macKey('smtp-password')
  return (username, password) => createHmac('sha256', key).update(`${username}\0${password}`).digest()
}

/** `password` is the secret: nobody can see it again. */
export async function createSmtpCredential(
  db: Db,
  vault: Vault,
  workspace: WorkspaceId,
  name: string,
  expiresAt?: Date,
): Promise<SmtpCredential & { readonly password: string }> {
  const username = `smtp-${randomBytes(8).toString('hex')}`
  const password = makePassword(passwordBytes)
  const row = await insertCredential(db, workspace, {
    id: randomUUIDv7(),
    name: parseName(name, 'credential'),
    username,
    passwordHash: passwordHasher(vault)(username, password),
    expiresAt,
  })
  return { ...shown(row), password }
}

/** A credential sends mail, so only somebody who may send makes one. Like a key, it ends with the key that makes it. */
export function createCredentialFor({ db, vault }: { readonly db: Db; readonly vault: Vault }, by: By, name: string) {
  return audited(
    db,
    by,
    'smtp_credential.created',
    async (tx) => {
      const { now, end } = await stillBy(tx, by, 'smtp-credentials.write')
      if (!now.scopes.has('mail.send'))
        throw new Mistake('You cannot make an SMTP credential: you do not have the scope mail.send yourself.', {
          code: 'insufficient_scope',
        })
      await makeRoomForCredential(tx, by.workspaceId, limits.keysPerWorkspaceMax)
      if ((await listCredentialRows(tx, by.workspaceId)).length >= limits.keysPerWorkspaceMax)
        throw new Mistake(`A workspace has at most ${limits.keysPerWorkspaceMax} credentials.`, { code: 'conflict' })
      return createSmtpCredential(tx, vault, by.workspaceId, name, end)
    },
    (credential) => ({ target: credential.id, facts: { name: credential.name, username: credential.username } }),
  )
}

export function revokeCredentialFor({ db }: { readonly db: Db }, by: By, id: string): Promise<SmtpCredential> {
  return audited(
    db,
    by,
    'smtp_credential.revoked',
    async (tx) => {
      const row = await revokeCredentialRow(tx, by.workspaceId, id)
      if (row === undefined) throw notThere('SMTP credential')
      return shown(row)
    },
    (credential) => ({ target: id, facts: { name: credential.name, username: credential.username } }),
  )
}

export async function listSmtpCredentials(db: Db, workspace: WorkspaceId): Promise<SmtpCredential[]> {
  return (await listCredentialRows(db, workspace)).map(shown)
}

/** Of which workspace it is, for those who may look into all of them. */
export async function whoseCredential(db: Db, text: string): Promise<WorkspaceId> {
  const id = parseId(text, 'credential')
  const workspace = await workspaceOfCredential(db, id)
  if (workspace === undefined) throw new Mistake(`There is no SMTP credential ${id}.`)
  return workspace
}
