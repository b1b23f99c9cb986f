// A new DKIM key, made, published and seen while the nemesis strikes. It signs what is accepted from two minutes later on; whatever key signs, the checker of the ledgers
// wants every mail's signature valid, and all attempts of a mail the same.
import type { DnsRecord } from '../../world/journey-workspace.ts'
import { askUntilAnswered, type Asked, type Beside, type Scene } from './scene.ts'

export async function dkimKeyReplaced({ fronts, shop, zone, at }: Scene): Promise<Beside> {
  const broken: string[] = []
  const records: DnsRecord[] = []
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
  const replace = async (): Promise<void> => {
    await at(0.1)
    const { id } = (await ask('GET', 'domains')).items?.[0] ?? {}
    publish((await ask('POST', `domains/${id}/dkim/rotate`)).records)
    await ask('POST', `domains/${id}/check`)
  }
  return {
    records,
    over: replace(),
    breaches: async ({ query }) => {
      const [row] = await query<{ many: number }>(
        `select count(*)::integer many from dkim_key_pairs where workspace_id = '${shop.id}' and state = 'retired'`,
      )
      return row?.many === 1 ? broken : [...broken, `dkim: ${row?.many} keys were replaced, not 1`]
    },
  }
}
