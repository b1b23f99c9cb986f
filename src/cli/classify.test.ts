// `posthorn classify`: what a reply or a report means, without a service.
import { rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { limits } from '../config.ts'
import { families } from '../domain/report-families.test-kit.ts'
import { readSecret } from './arguments.ts'
import { commandsOver } from './command.test-kit.ts'

const { posthorn, answer } = commandsOver()

test('says what a reply means, by the command that it answered, without a database', async () => {
  const classify = async (...args: string[]) => {
    const { out } = await posthorn(['classify', ...args, '--json'], { DATABASE_URL: 'postgres://nowhere.invalid/x' })
    return JSON.parse(out) as unknown
  }
  const verdict = { class: 'bad_mailbox', event: 'hard_bounce', suppress: true, rule: 'bad-mailbox-code' }
  expect(await classify('550-5.1.1 The account\n550 5.1.1 does not exist')).toMatchObject(verdict)
  expect(await classify('--stage', 'eod', '550 no such user')).toMatchObject({ class: 'filtered', event: 'soft_bounce', suppress: false }) // prettier-ignore
  expect(await classify('--stage', 'mail', '250 ok')).toMatchObject({ class: 'information', event: null })
})

test('reads a report in a file, and says so where a mail reports nothing', async () => {
  const folder = temporaryFolder()
  const file = join(folder, 'report.eml')
  writeFileSync(file, families[0]?.mail ?? '')
  expect(await answer('classify', '--report', file)).toEqual({
    reports: [
      {
        kind: 'dsn',
        recipient: 'anna@example.org',
        action: 'failed',
        status: '5.1.1',
        class: 'bad_mailbox',
        event: 'hard_bounce',
        suppress: true,
        rule: 'bad-mailbox-code',
      },
    ],
  })
  writeFileSync(file, 'Subject: hello\n\nhello\n')
  expect(await answer('classify', '--report', file)).toEqual({ reports: [] })
  rmSync(file)
  expect(await posthorn(['classify', '--report', file])).toMatchObject({ status: 1, out: '' })
  for (const args of [[], ['--stage', 'connect', '550 x']])
    expect(await posthorn(['classify', ...args])).toMatchObject({ status: 2, out: '' })
})

test('a file that is larger than any report is read no further than that, and neither is one for a secret', async () => {
  const file = join(temporaryFolder(), 'mailbox')
  writeFileSync(file, '')
  truncateSync(file, 2 ** 40) // nothing lies on the disk
  expect(await posthorn(['classify', '--report', file])).toMatchObject({
    status: 1,
    err: expect.stringContaining(`The file is larger than ${limits.feedbackBytesMax} bytes: no report is.`),
  })
  await expect(readSecret(file)).rejects.toThrow('The file is larger than 65536 bytes: no key and no password is.')
})
