// Whoever reads why a server cannot listen also reads what to do about it.
import { expect, test } from 'vitest'
import { cannotListen } from './listening.ts'

const absent = Object.assign(new Error('bind'), { code: 'EADDRNOTAVAIL' })

test('a machine without its loopback address is told to bring it up, and not to choose another', () => {
  const metrics = { host: '127.0.0.1', port: 9464, from: { port: 'X_PORT' } }
  expect(cannotListen('metrics', metrics, absent).message).toMatch(
    / this machine has no loopback address; bring it up \(ip link set lo up\)$/,
  )
  const from = { host: 'X_HOST', port: 'X_PORT' }
  expect(cannotListen('http', { host: '192.0.2.1', port: 80, from }, absent).message).toMatch(
    / that is no address of this machine; set X_HOST to one$/,
  )
})
