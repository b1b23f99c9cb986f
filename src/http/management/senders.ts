// The workspace, its domains, mailboxes and keys.
import { managementOperations as operations } from '../../contract/operations.ts'
import {
  addDomainFor,
  addMailboxFor,
  changeMailboxFor,
  changeWorkspace,
  checkDomainFor,
  createCredentialFor,
  createKeyFor,
  endEd25519For,
  listDomains,
  listKeys,
  listMailboxes,
  listSmtpCredentials,
  removeDomain,
  removeMailbox,
  revokeCredentialFor,
  revokeKeyFor,
  rotateDkimFor,
  showDomain,
  showMailbox,
  showWorkspace,
} from '../../workspace/workspace.ts'
import type { ManagementRouter } from '../manage.ts'

export function senderRoutes({ member, office }: ManagementRouter): void {
  member(operations.readWorkspace, ({ by }) => showWorkspace(office, by.workspaceId))
  member(operations.changeWorkspace, ({ by, body }) => changeWorkspace(office, by, body))

  member(operations.listDomains, async ({ by }) => ({
    items: await listDomains(office.db, by.workspaceId, office.hostname),
  }))
  member(operations.addDomain, ({ by, body }) => addDomainFor(office, by, body.name))
  member(operations.readDomain, ({ by, path }) => showDomain(office, by.workspaceId, path.domainId))
  member(operations.checkDomain, ({ by, path }) => checkDomainFor(office, by, path.domainId))
  member(operations.rotateDkim, ({ by, path, query }) => rotateDkimFor(office, by, path.domainId, query.algorithm))
  member(operations.endEd25519, ({ by, path }) => endEd25519For(office, by, path.domainId))
  member(operations.removeDomain, async ({ by, path }) => {
    await removeDomain(office, by, path.domainId)
  })

  member(operations.listMailboxes, async ({ by }) => ({ items: await listMailboxes(office.db, by.workspaceId) }))
  member(operations.addMailbox, ({ by, body }) => addMailboxFor(office, by, body.address, body.name))
  member(operations.readMailbox, ({ by, path }) => showMailbox(office, by.workspaceId, path.mailboxId))
  member(operations.changeMailbox, ({ by, path, body }) => changeMailboxFor(office, by, path.mailboxId, body))
  member(operations.removeMailbox, async ({ by, path }) => {
    await removeMailbox(office, by, path.mailboxId)
  })

  member(operations.listCredentials, async ({ by }) => ({
    items: await listSmtpCredentials(office.db, by.workspaceId),
    server: office.submission,
  }))
  member(operations.createCredential, async ({ by, body }) => ({
    ...(await createCredentialFor(office, by, body.name)),
    server: office.submission,
  }))
  member(operations.revokeCredential, ({ by, path }) => revokeCredentialFor(office, by, path.credentialId))

  member(operations.listKeys, async ({ by }) => ({ items: await listKeys(office.db, by.workspaceId) }))
  member(operations.createKey, ({ by, body: { expiresAt, ...wish } }) =>
    createKeyFor(office, by, { ...wish, ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }) }),
  )
  member(operations.revokeKey, ({ by, path }) => revokeKeyFor(office, by, path.keyId))
}
