// Whose work it is goes along with it (docs/decisions/0056), also with work that a request leaves behind: else it has no share, and takes all there is.
import { afterEach, expect, test, vi } from 'vitest'
import { currentOwner } from '../base/turns.ts'
import { limits } from '../config.ts'
import type { Statement } from '../store/database.ts'
import { officeWorld } from './office.test-kit.ts'

const office = await officeWorld()
const shop = await office.sender()
await office.world.db.run(
  `insert into suppressions (workspace_id, recipient_key, recipient, reason)
     select $1, a.address, a.address, 'manual' from (select 'ada' || n || '@example.com' address from generate_series(1, $2) n) a`,
  [shop.workspaceId, 3 * limits.suppressionImportRows],
)
afterEach(() => vi.restoreAllMocks())

/** On whose behalf this statement has been asked, each time. */
function askersOf(name: string): string[] {
  const askers: string[] = []
  const { db } = office.office
  const { rows } = db
  vi.spyOn(db, 'rows').mockImplementation((statement: Statement, values) => {
    if (statement.name === name) askers.push(currentOwner())
    return rows(statement, values)
  })
  return askers
}

test('every page of an export is read for the workspace that it is of', async () => {
  const askers = askersOf('page-suppressions')
  const owner = await office.signedIn('viewer', shop.workspaceId)
  const answer = await owner.ask('GET', '/suppressions.csv')
  expect(answer.body.trimEnd().split('\r\n')).toHaveLength(1 + 3 * limits.suppressionImportRows)
  expect(askers).toEqual(Array(4).fill(shop.workspaceId))
})

test('who asks for the head of an export alone makes nobody read its rows', async () => {
  const askers = askersOf('page-suppressions')
  const key = await office.key(shop.workspaceId, 'suppressions.read')
  const url = '/api/v1/suppressions.csv'
  const answer = await office.app.inject({ method: 'HEAD', url, headers: { authorization: `Bearer ${key}` } })
  expect([answer.statusCode, answer.headers['content-type'], answer.body]).toEqual([200, 'text/csv; charset=utf-8', ''])
  // What it left behind would have asked by now: this reads all pages of another one.
  const whole = await office.app.inject({ method: 'GET', url, headers: { authorization: `Bearer ${key}` } })
  expect(whole.statusCode).toBe(200)
  expect(askers).toHaveLength(4)
})

test('what a stranger asks for is done for their address', async () => {
  let owner = ''
  vi.spyOn(office.office.people, 'askForReset').mockImplementation(() => void (owner = currentOwner()))
  const asked = { body: { email: 'nobody@people.example' } }
  expect((await office.browser().ask('POST', '/password-resets', asked)).statusCode).toBe(202)
  expect(owner).toBe('127.0.0.1')
})
