import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { installationKeys } from '../base/installation-key.ts'
import { openVault, WrongInstallationKey } from './mac-root.ts'
import { storeWorld } from './store.test-kit.ts'

const [key, other] = ['k'.repeat(32), 'o'.repeat(32)]
const world = await storeWorld()
const folder = temporaryFolder()
await openVault({ all: () => [key] }, world.db)

const keysOf = (secret?: string) =>
  installationKeys({ POSTHORN_DATA_DIR: folder, POSTHORN_SECRET_KEY: secret, POSTHORN_SECRET_KEYS_ACCEPTED: [] })
const whyNot = async (secret?: string): Promise<string> => {
  const error = await openVault(keysOf(secret), world.db).catch((error: unknown) => error as Error)
  if (!(error instanceof WrongInstallationKey))
    throw new Error('it opened, or something else was wrong', { cause: error })
  expect(error.message).not.toContain('mac-root')
  return error.message
}

test('no key in the data folder of a database that was sealed with one: that is told, and no other key is put in its place', async () => {
  const file = join(folder, 'secret-key')
  const words = await whyNot()
  expect(words).toContain(`${file} is missing, and with it this database was sealed`)
  expect(words).toMatch(/from your backup.*mode 0600.*POSTHORN_SECRET_KEY/)
  expect(existsSync(file)).toBe(false)
})

test('another key in the data folder: the file is named, and what belongs there', async () => {
  const file = join(folder, 'secret-key')
  writeFileSync(file, `${other}\n`)
  const words = await whyNot()
  expect(words).toContain(`${file} does not open this database: it is not the installation key`)
  expect(words).toMatch(/secret-key of the old data folder.*mode 0600.*old POSTHORN_SECRET_KEY/)
  writeFileSync(file, `${key}\n`)
  await openVault(keysOf(), world.db)
})

test('another key in the environment: the variable is named, and what belongs there', async () => {
  const words = await whyNot(other)
  expect(words).toMatch(/^POSTHORN_SECRET_KEY does not open this database: it is not the installation key/)
  expect(words).toMatch(/old one.*file secret-key of the old data folder/)
})
