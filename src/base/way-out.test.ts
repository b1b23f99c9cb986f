import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { withoutIpv6 } from '../../test/world/without-ipv6.ts'
import { isNothingLeft } from './nothing-left.ts'

const mayMakeNetworks = (() => {
  try {
    execFileSync('unshare', ['-n', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

test.runIf(mayMakeNetworks)(
  'a machine whose only interface is loopback has no way out, and says so at once, whether its kernel has IPv6 or not',
  () => {
    const script = `import { isThereAWayOut } from '${import.meta.dirname}/way-out.ts'; console.log(await isThereAWayOut())`
    const ask = [process.execPath, '--input-type=module', '-e', script] as const
    for (const program of [ask, withoutIpv6(...ask)]) {
      const said = execFileSync('unshare', ['-n', ...program], { timeout: 30_000 })
      expect(said.toString().trim()).toBe('false')
    }
  },
)

test('no free port is a lack of ours; no IPv6 address is how this machine is', () => {
  const failure = (address: string) =>
    Object.assign(new Error('connect EADDRNOTAVAIL'), { code: 'EADDRNOTAVAIL', address })
  expect(['192.0.2.1', '2001:db8::1'].map((address) => isNothingLeft(failure(address)))).toEqual([true, false])
})
