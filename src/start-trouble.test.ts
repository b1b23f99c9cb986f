import { expect, test } from 'vitest'
import { toldOf } from './start-trouble.ts'

/** As the driver gives it. */
const said = (code: string, words: string): Error => Object.assign(new Error(words), { code })

test.each([
  ['a full disk', said('53100', 'could not extend file "base/16384/2608": No space left on device'), /make room/],
  ['a quota', said('53100', 'could not write to file "base/pgsql_tmp/1": Disk quota exceeded'), /make room/],
  ['a lock', said('57014', 'canceling statement due to statement timeout'), /holds a lock/],
  ['a slow server', new Error('Query read timeout'), /did not answer in time/],
  ['a standby', said('25006', 'cannot execute INSERT in a read-only transaction'), /name the primary/],
])('a database that is there and of no use (%s) is not told as one that cannot be reached', (_, error, words) => {
  const { sentence, plain } = toldOf(error, false)
  expect(plain).toBe(true)
  expect(sentence).toMatch(words)
  expect(sentence).not.toContain('cannot be reached')
})

test('a lost line to the embedded database leads to its log, and to no setting that nobody has set', () => {
  const lost = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' })
  expect(toldOf(lost, true)).toEqual({
    sentence: 'read ECONNRESET: the database cannot be reached; postgresql.log in the data folder says why.',
    plain: true,
  })
  expect(toldOf(lost, false).sentence).toContain('DATABASE_URL')
  const stranger = said('28P01', 'password authentication failed for user "posthorn"')
  expect(toldOf(stranger, true).sentence).toContain('postgresql.log')
  expect(toldOf(stranger, false).sentence).toContain('user and password in DATABASE_URL')
})
