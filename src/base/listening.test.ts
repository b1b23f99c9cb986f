// Whoever reads why a server cannot listen also reads what to do about it.
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { withoutIpv6 } from '../../test/world/without-ipv6.ts'
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

test.runIf(process.platform === 'linux')(
  'a machine without IPv6 is told so, and what stands for all its addresses',
  () => {
    const script = `
    import { tryListening } from '${import.meta.dirname}/listening.ts'
    const at = { what: 'submission', host: '::', port: 2587, from: { host: 'X_HOST', port: 'X_PORT' } }
    console.log(await tryListening([at]).catch(({ message }) => message))`
    const [program, ...args] = withoutIpv6(process.execPath, '--input-type=module', '-e', script)
    expect(execFileSync(program, args, { encoding: 'utf8' }).trim()).toBe(
      'submission cannot listen on [::]:2587: this machine has no IPv6; set X_HOST to an address of IPv4, such as 0.0.0.0 for all',
    )
  },
)
