// A connection URL may leave out what the driver must be told.
import { expect, test } from 'vitest'
import { serverOf } from './connection.ts'

test.each([
  ['postgres://u:p@db.example/mail', { host: 'db.example', port: '5432', user: 'u' }],
  ['postgres://u:p@db.example:6000/mail?sslmode=no-verify', { host: 'db.example', port: '6000', sslmode: 'no-verify' }],
  ['postgres://u:p@/mail?host=/run/pg', { host: '/run/pg', port: '5432' }],
  ['postgres:///mail?host=/run/pg&user=u&port=7', { host: '/run/pg', port: '7', user: 'u' }],
  ['postgres://u:p@[::1]/mail', { host: '::1', port: '5432' }],
])('of where a server is, %s says every part', (given, parts) => {
  const completed = new URL(serverOf({ url: given }).connectionString ?? '')
  expect(Object.fromEntries(completed.searchParams)).toMatchObject(parts)
  expect(completed.pathname).toBe('/mail')
})
