// A name server of the tests' own, and a real database whose clock is moved: whoever imports this has both.
import { randomBytes } from 'node:crypto'
import { beforeEach } from 'vitest'
import { startDnsServer, type Name } from '../../test/world/dns-server.ts'
import { ending } from '../../test/world/ending.ts'
import { makeVault } from '../base/secret.ts'
import { makeZones } from '../base/zones.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { makeDomainChecker, type DomainChange, type DomainChecker } from './domain-check.ts'
import { addDomain, type Domain } from './domains.ts'

export const hostname = 'node.test'
export const vault = makeVault(randomBytes(32).toString('base64'))
export let checker: DomainChecker
export let told: DomainChange[]
export const [world, dns] = await Promise.all([storeWorld(), ending(startDnsServer)])
export const workspace = (await world.sender()).workspaceId

beforeEach(async () => {
  for (const name of Object.keys(dns.zone)) delete dns.zone[name]
  told = []
  const tell = (change: DomainChange) => Promise.resolve(void told.push(change))
  const zones = makeZones({ servers: [dns.address], queryMs: 300 })
  checker = makeDomainChecker({ db: world.db, zones, hostname, tell })
  await world.setClock()
  await world.db.run('update domains set check_due_at = null')
})

export const operator = () => ({ workspaceId: workspace, actor: 'operator:test', scopes: new Set<string>() })
let made = 0
export const add = (verified = false): Promise<Domain> =>
  addDomain({ db: world.db, vault, hostname }, workspace, `d${++made}.example`, verified)
export const check = async ({ id }: Domain): Promise<Domain> => (await checker.check(workspace, id)) as Domain
export const set = (name: string, what: Name): void => void (dns.zone[name] = what)
/** What the owner of the zone copies into it. */
export const publish = (domain: Domain, purposes = ['ownership', 'dkim', 'return_path']): void => {
  for (const { purpose, type, name, value } of domain.records)
    if (purposes.includes(purpose)) set(name, type === 'CNAME' ? { cname: value } : { txt: [value] })
}
export const record = (domain: Domain, purpose: string) => domain.records.find((each) => each.purpose === purpose)
export const clockAt = (domain: Domain, hours: number) =>
  world.setClock(new Date(domain.createdAt.getTime() + hours * 3600_000).toISOString())
