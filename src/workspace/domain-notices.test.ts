import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { startDnsServer } from '../../test/world/dns-server.ts'
import { ending } from '../../test/world/ending.ts'
import { silentLog } from '../base/log.ts'
import { makeVault } from '../base/secret.ts'
import { makeZones } from '../base/zones.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { makeDomainChecker } from './domain-check.ts'
import { makeDomainNotices } from './domain-notices.ts'
import { addDomain, rotateDkimFor } from './domains.ts'
import { createUser } from './logins.ts'
import type { Notice } from './notices.ts'
const [world, dns] = await Promise.all([storeWorld(), ending(startDnsServer)])

test('the owners are told when a domain breaks, stops, and works again, and what is wrong with it; others are not', async () => {
  const { workspaceId } = await world.sender()
  for (const role of ['owner', 'admin'] as const)
    await createUser(world.db, 'cli', {
      email: `${role}@people.example`,
      operator: false,
      member: { role, workspace: workspaceId },
    })
  const sent: Notice[] = []
  const notify = (notice: Notice) => Promise.resolve(sent.push(notice) > 0)
  const tell = makeDomainNotices({ db: world.db, notify, publicUrl: 'https://mail.example', log: silentLog })
  const zones = makeZones({ servers: [dns.address] })
  const checker = makeDomainChecker({ db: world.db, zones, hostname: 'node.test', tell })
  const vault = makeVault(randomBytes(32).toString('base64'))
  const domain = await addDomain({ db: world.db, vault, hostname: 'node.test' }, workspaceId, 'told.example', false)
  const publish = () => {
    for (const { type, name, value } of domain.records) if (type === 'TXT') dns.zone[name] = { txt: [value] }
  }
  const at = (hours: number) => world.setClock(new Date(domain.createdAt.getTime() + hours * 3600_000).toISOString())

  publish()
  await at(0)
  await checker.check(workspaceId, domain.id)
  // A new key waits for its record, and has nothing to do with what breaks.
  const by = { workspaceId, actor: 'operator:test', scopes: new Set<string>() }
  const { records } = await rotateDkimFor({ db: world.db, vault, hostname: 'node.test' }, by, domain.id)
  const key = records.find(({ purpose }) => purpose === 'dkim')?.name ?? ''
  for (const name of Object.keys(dns.zone)) if (name !== key) delete dns.zone[name]
  for (const hours of [1, 2, 73, 74]) {
    await at(hours)
    await checker.check(workspaceId, domain.id)
  }
  publish()
  await checker.check(workspaceId, domain.id)
  expect(sent.map(({ to, subject }) => `${to}: ${subject}`)).toEqual([
    'owner@people.example: told.example is verified',
    'owner@people.example: told.example: its DNS records are broken',
    'owner@people.example: told.example sends no more mail',
    'owner@people.example: told.example works again',
  ])
  expect(sent[1]?.bodyText).toMatch(/TXT _posthorn\.told\.example\n {2}There is no such record yet[^]*72 hours/)
  expect(sent[1]?.bodyText).not.toContain('_domainkey')
  for (const { bodyText } of sent) expect(bodyText).toContain(`https://mail.example/domains?workspace=${workspaceId}\n`)
})
