import { expect, test } from 'vitest'
import { noDatabase, toldOf } from './start-trouble.ts'

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

test.each([
  ['28P01', 'Passwort-Authentifizierung für Benutzer »posthorn« fehlgeschlagen', /wants the right password/],
  ['28000', 'Rolle »posthorn« existiert nicht', /pg_hba\.conf, or look at DATABASE_URL/],
  ['3D000', 'Datenbank »mail« existiert nicht', /make the database/],
  ['42501', 'keine Berechtigung für Datenbank mail', /grant connect on database/],
  ['53300', 'tut mir leid, schon zu viele Verbindungen', /raise max_connections/],
  [
    '53100',
    'konnte Datei »base/1/2« nicht erweitern: Auf dem Gerät ist kein Speicherplatz mehr verfügbar',
    /make room/,
  ],
  ['57014', 'Anfrage wird abgebrochen wegen Zeitüberschreitung der Anfrage', /who holds a lock/],
  ['25006', 'kann INSERT nicht in einer Read-Only-Transaktion ausführen', /name the primary/],
  ['57P03', 'das Datenbanksystem startet', /is there and not ready/],
])('a server that speaks another language (%s: %s) leads out by its codes', (code, words, way) => {
  const { message } = noDatabase(said(code, words), false)
  expect(message).toMatch(way)
  expect(message.startsWith(`${words}: `)).toBe(true)
})
