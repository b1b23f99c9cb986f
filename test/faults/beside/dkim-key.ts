// New DKIM keys while the nemesis strikes. One is made, published and seen beside the load; it signs what is accepted from two minutes later on, which short campaigns do
// not come to. So a workspace of its own has that behind it: all of its mail is signed with its second key. The checker of the ledgers wants every signature valid, whatever
// key made it, and all attempts of a mail the same.
import type { DnsRecord, JourneyWorkspace } from '../../world/journey-workspace.ts'
import { startLoad } from '../load.ts'
import { askUntilAnswered, type Asked, type Beside, type Scene } from './scene.ts'

const share = 0.1
const first = 4_000_000

export async function dkimKeyReplaced(scene: Scene): Promise<Beside> {
  const { shop, at } = scene
  const keys = keysOf(shop, scene)
  const replace = async (): Promise<void> => {
    await at(0.1)
    await keys.replace()
  }
  return {
    records: keys.records,
    over: replace(),
    breaches: async ({ query }) => {
      const [row] = await query<{ many: number }>(
        `select count(*)::integer many from dkim_key_pairs where workspace_id = '${shop.id}' and state = 'retired'`,
      )
      return row?.many === 1 ? keys.broken : [...keys.broken, `dkim: ${row?.many} keys were replaced, not 1`]
    },
  }
}

export async function secondDkimKeySigns(scene: Scene): Promise<Beside> {
  const { fronts, messages, chance, at, open, query } = scene
  const { shop, login } = await open({ scopes: ['mail.send', 'domains.read', 'domains.write'] })
  const keys = keysOf(shop, scene)
  await keys.replace()
  // Nobody has read them yet, for there was no mail of it.
  const moved = await query(
    `update dkim_key_pairs set created_at = created_at - interval '1 hour', activated_at = activated_at - interval '10 minutes',
            retired_at = retired_at - interval '10 minutes'
      where workspace_id = '${shop.id}' and state in ('active', 'retired') returning selector`,
  )
  if (moved.length !== 2) keys.broken.push(`dkim: ${moved.length} keys after a replacement, not 2`)
  const many = Math.ceil(messages * share)
  const load = startLoad({ shop, nodes: fronts, login, messages: many, first, chance })
  const handIn = async (): Promise<void> => {
    for (let n = 1; n <= many; n++) {
      await at(n / (many + 1))
      load.allow(n)
    }
    await load.over
  }
  const isByIt = (content = ''): boolean => keys.selectors.some((selector) => content.includes(` s=${selector};`))
  return {
    told: load.told,
    records: keys.records,
    over: handIn(),
    breaches: ({ ledger }) => {
      const all = new Set(load.told.map(({ recipient }) => recipient))
      const its = ledger.filter(({ to }) => all.has(to[0] ?? ''))
      const wrong = its
        .filter(({ content }) => !isByIt(content))
        .map(({ to }) => `dkim: ${to[0]} has not the second key`)
      return Promise.resolve([...keys.broken, ...wrong, ...(its.length > 0 ? [] : ['dkim: no mail by a second key'])])
    },
  }
}

/** The keys of one workspace's domain, published as soon as they are made. */
function keysOf(shop: JourneyWorkspace, { fronts, zone }: Scene) {
  const broken: string[] = []
  const records: DnsRecord[] = []
  const selectors: string[] = []
  const ask = async (method: 'GET' | 'POST', path: string): Promise<Asked['body']> => {
    const { status, body } = await askUntilAnswered(fronts, {
      key: shop.key,
      method,
      path,
      ...(method === 'POST' && { body: {} }),
    })
    if (status >= 300) broken.push(`dkim: ${path} is ${status} ${body.code}`)
    return body
  }
  const publish = (all: readonly DnsRecord[] = []): void => {
    for (const { type, name, value } of all.filter(({ type }) => type === 'TXT')) {
      zone[name] = { txt: [value] }
      records.push({ type, name, value })
    }
  }
  publish(shop.records)
  return {
    broken,
    records,
    /** Of the keys that replace the first one. */
    selectors,
    replace: async (): Promise<void> => {
      const { id } = (await ask('GET', 'domains')).items?.[0] ?? {}
      const { records: asked = [] } = await ask('POST', `domains/${id}/dkim/rotate`)
      const isFirst = ({ name }: DnsRecord) => shop.records.some((before) => before.name === name)
      for (const record of asked.filter((each) => each.name.includes('._domainkey.') && !isFirst(each)))
        selectors.push(record.name.split('.')[0] ?? '')
      publish(asked)
      await ask('POST', `domains/${id}/check`)
    },
  }
}
