// The stub resolver against name servers with manners of their own; what it makes of answers is in deliver/resolve.test.ts.
import { expect, test } from 'vitest'
import { makeDns } from './dns.ts'

test('a server that no way leads to is as good as silent', async () => {
  // The kernel says so at once: no route (IPv6 on a machine without it), or not allowed.
  const dns = makeDns({ servers: ['255.255.255.255'], queryMs: 2_000, tries: 1 })
  expect(await dns.ask('example.org', 'MX')).toMatchObject({ kind: 'failure', answered: false })
})
