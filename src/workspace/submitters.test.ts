// Who may log in over SMTP, and how soon a change is felt.
import { expect, test, vi } from 'vitest'
import { silentLog } from '../base/log.ts'
import { makeVault } from '../base/secret.ts'
import { limits } from '../config.ts'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { watched } from '../store/watched.test-kit.ts'
import { revokeCredentialRow } from '../store/smtp-credentials.ts'
import { createSmtpCredential, listSmtpCredentials } from './smtp-credentials.ts'
import { makeSubmitters } from './submitters.ts'

const vault = makeVault('an installation key of the tests, long enough')
const world = await storeWorld()
const submitters = makeSubmitters({ db: world.db, vault, log: silentLog, publicUrl: 'http://localhost' })
const sender = await world.sender()
const address = (text: string) => parseAddress(text) as EmailAddress

test('a password of at least 128 bits lets in, is shown once and kept as a keyed hash alone', async () => {
  const made = await createSmtpCredential(world.db, vault, sender.workspaceId, 'shop')
  expect(Buffer.from(made.password, 'base64url').length).toBeGreaterThanOrEqual(16)
  expect(await submitters.login(made.username, made.password)).toMatchObject({
    credentialId: made.id,
    workspaceId: sender.workspaceId,
    blocked: false,
    apiSending: true,
  })
  expect(await submitters.login(made.username, `${made.password}x`)).toBeUndefined()
  expect(await submitters.login('nobody', made.password)).toBeUndefined()
  // What a name that does not exist is compared with lets in nobody either.
  expect(await submitters.login('', '')).toBeUndefined()
  const [row] = await world.db.run<{ all: string }>('select c::text "all" from smtp_credentials c where id = $1', [
    made.id,
  ])
  expect(row?.all).not.toContain(made.password)
  expect(JSON.stringify(await listSmtpCredentials(world.db, sender.workspaceId))).not.toContain(made.password)
  // Another installation's key makes another hash of the same password.
  const elsewhere = makeVault('another installation key, just as long as it')
  const other = makeSubmitters({ db: world.db, vault: elsewhere, log: silentLog, publicUrl: '' })
  expect(await other.login(made.username, made.password)).toBeUndefined()
})

test('a revoked credential has no standing as soon as access changes are heard', async () => {
  const made = await createSmtpCredential(world.db, vault, sender.workspaceId, 'to go')
  expect(await submitters.standing(made.username)).toBeDefined()
  await revokeCredentialRow(world.db, sender.workspaceId, made.id)
  submitters.forget()
  expect(await submitters.standing(made.username)).toBeUndefined()
  expect(await submitters.login(made.username, made.password)).toBeUndefined()
})

test('also where no change was heard, within a second', async () => {
  const made = await createSmtpCredential(world.db, vault, sender.workspaceId, 'to go unheard')
  expect(await submitters.standing(made.username)).toBeDefined()
  await revokeCredentialRow(world.db, sender.workspaceId, made.id)
  const now = performance.now.bind(performance)
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + limits.principalCacheMs)
  try {
    expect(await submitters.standing(made.username)).toBeUndefined()
  } finally {
    clock.mockRestore()
  }
})

test('nor for a second more where the answer was long on its way: it is as old as its question', async () => {
  const made = await createSmtpCredential(world.db, vault, sender.workspaceId, 'to go slowly')
  let laterMs = 0
  const answered = (name: string) => (laterMs += name === 'submitter' ? limits.principalCacheMs : 0)
  const slow = watched(world.db, { answered })
  const now = performance.now.bind(performance)
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + laterMs)
  try {
    const own = makeSubmitters({ db: slow, vault, log: silentLog, publicUrl: '' })
    expect(await own.standing(made.username)).toBeDefined()
    await revokeCredentialRow(world.db, sender.workspaceId, made.id)
    expect(await own.standing(made.username)).toBeUndefined()
  } finally {
    clock.mockRestore()
  }
})

test('a login that has ended with the key that made it lets nobody in, and one that will end is not remembered beyond that', async () => {
  const now = Date.now()
  const end = new Date(now + 3600_000)
  const made = await createSmtpCredential(world.db, vault, sender.workspaceId, 'for an hour', end)
  expect(made).toMatchObject({ expiresAt: end, expired: false })
  const mine = () => submitters.login(made.username, made.password)
  try {
    await world.setClock(new Date(now + 3600_000 - 100).toISOString())
    expect(await mine()).toBeDefined()
    await world.setClock(end.toISOString())
    const running = performance.now.bind(performance)
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => running() + 100)
    expect(await submitters.standing(made.username)).toBeUndefined()
    clock.mockRestore()
    expect(await mine()).toBeUndefined()
    expect(await listSmtpCredentials(world.db, sender.workspaceId)).toContainEqual(
      expect.objectContaining({ id: made.id, expired: true }),
    )
  } finally {
    await world.setClock()
  }
})

test('a sender is a mailbox of this workspace alone, in any case, while it is active', async () => {
  const other = await world.sender()
  const own = await world.value<string>('select address from mailboxes where id = $1', [sender.mailboxId])
  expect(await submitters.mailboxOf(sender.workspaceId, address(own.toUpperCase()))).toBe(sender.mailboxId)
  expect(await submitters.mailboxOf(other.workspaceId, address(own))).toBeUndefined()
  await world.db.run(`update mailboxes set status = 'disabled' where id = $1`, [sender.mailboxId])
  submitters.forget()
  expect(await submitters.mailboxOf(sender.workspaceId, address(own))).toBeUndefined()
})

test('suppressions are found for many sessions at once, each its own', async () => {
  const other = await world.sender()
  await world.db.run(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason)
     values ($1, 'ann@receiver.test', 'ann@receiver.test', 'manual'), ($1, 'x@simulator.posthorn.test', 'x', 'manual')`,
    [sender.workspaceId],
  )
  const asked = [
    [sender, 'Ann@Receiver.test'],
    [sender, 'bob@receiver.test'],
    [other, 'ann@receiver.test'],
    [sender, 'x@simulator.posthorn.test'],
  ] as const
  const answers = asked.map(([{ workspaceId }, text]) => submitters.isSuppressed(workspaceId, address(text)))
  expect(await Promise.all(answers)).toEqual([true, false, false, true])
})
