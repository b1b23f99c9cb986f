// The installation key, rotated by the book (docs/production.md) while the nemesis strikes: both nodes restarted one after the other under load, `posthorn rotate-key` killed
// and begun again. What it seals is needed for every signature and every webhook, so the ledgers tell whether it opens meanwhile; and in the end everything
// that is sealed opens with the new key alone, also where nobody needs it any more.
import { setTimeout as pause } from 'node:timers/promises'
import { makeVault } from '../../../src/base/secret.ts'
import { sealedColumns } from '../../../src/store/sealed.ts'
import type { AfterAll, Beside, Scene } from './scene.ts'

const killsMost = 3
const commandMsMost = 1_500

export function installationKeyRotated({ keys, chance, at, operator, deploy }: Scene): Promise<Beside> {
  const broken: string[] = []
  const killAfter = Array.from({ length: chance.below(killsMost + 1) }, () => chance.below(commandMsMost))
  const settings = { POSTHORN_SECRET_KEY: keys.next, POSTHORN_SECRET_KEYS_ACCEPTED: keys.first }

  const untilDone = async (...words: string[]): Promise<void> => {
    for (let tries = 0; tries < 20; tries++) {
      const { status, said } = await operator(words, { settings, killAfterMs: killAfter.shift() })
      if (status === 0) return
      if (status === 2) return void broken.push(`installation key: ${words.join(' ')}: ${said}`)
      await pause(200)
    }
    broken.push(`installation key: ${words.join(' ')} does not come to its end`)
  }
  const rotate = async (): Promise<void> => {
    await at(0.2)
    await deploy(settings)
    await untilDone('rotate-key')
    await untilDone('rotate-key', '--finish')
    // From here on the old one opens nothing for anybody.
    await deploy({ ...settings, POSTHORN_SECRET_KEYS_ACCEPTED: keys.other })
  }
  return Promise.resolve({
    over: rotate(),
    breaches: async ({ query }) => [...broken, ...(await stillShut(keys.next, query))],
  })
}

/** What does not open with this key. */
async function stillShut(key: string, query: AfterAll['query']): Promise<string[]> {
  const vault = makeVault(key)
  const shut: string[] = []
  for (const { table, column, key: names, more = '', context } of sealedColumns) {
    const shown = Object.keys(names).map((name) => `t.${name}::text ${name}`)
    const rows = await query<{ sealed: Buffer } & Record<string, string>>(
      `select ${shown.join(', ')}${more}, t.${column} sealed from ${table} t where t.${column} is not null`,
    )
    const many = rows.filter((row) => !vault.isCurrent(row.sealed, context(row))).length
    if (many > 0) shut.push(`installation key: ${many} of ${rows.length} in ${table}.${column} need the old key`)
  }
  return shut
}
