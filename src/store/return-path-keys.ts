// Which keys sign return paths (mail/return-path.ts). The database holds their letters and since when each is used; the keys
// themselves are derived from the root of MACs (mac-root.ts), so every node has the same. A message's key is the one of its acceptance: whatever
// is transmitted is the same at every attempt.
import type { KeyObject } from 'node:crypto'
import { limits } from '../config.ts'
import type { Vault } from '../base/secret.ts'
import type { ReturnPathKey } from '../mail/return-path.ts'
import { databaseNow, sql, type Db } from './database.ts'

interface Used {
  readonly id: string
  readonly since: Date
}

export interface ReturnPathKeys {
  /** The key for a message that was accepted then. */
  at(accepted: Date): Promise<ReturnPathKey>
  /** Undefined where no key in use has this letter. */
  named(id: string): Promise<ReturnPathKey | undefined>
}

const read = sql('return-path-keys', `select value from installation where name = 'return_path_keys'`)
const write = sql(
  'rotate-return-path-key',
  `insert into installation (name, value) values ('return_path_keys', $1)
   on conflict (name) do update set value = excluded.value where installation.value = $2 returning name`,
)

const firstKey: Used = { id: 'a', since: new Date(0) }
const letters = 'abcdefghijklmnopqrstuvwxyz'

const stored = async (db: Db): Promise<string | undefined> => (await db.rows<{ value: string }>(read))[0]?.value

/** Newest first; there is always one. */
function parse(value: string | undefined): readonly Used[] {
  if (value === undefined) return [firstKey]
  const rows = JSON.parse(value) as { id: string; since: string }[]
  return rows.map(({ id, since }) => ({ id, since: new Date(since) }))
}

export function makeReturnPathKeys(db: Db, vault: Vault): ReturnPathKeys {
  const secrets = new Map<string, KeyObject>()
  let used: Promise<readonly Used[]> | undefined
  let readAt = -Infinity

  const keysReadWithin = (ms: number): Promise<readonly Used[]> => {
    if (used !== undefined && performance.now() - readAt <= ms) return used
    const fresh = stored(db).then(parse)
    const before = used
    used = fresh
    readAt = performance.now()
    // What was known is better than nothing while the database is away; without anything known, the next caller asks again.
    used = fresh.catch((error: unknown) => {
      readAt = -Infinity
      if (before !== undefined) return before
      used = undefined
      throw error
    })
    return used
  }
  const keyOf = ({ id }: Used): ReturnPathKey => {
    const secret = secrets.get(id) ?? vault.macKey(`return-path ${id}`)
    secrets.set(id, secret)
    return { id, secret }
  }
  return {
    at: async (accepted) => {
      const all = await keysReadWithin(limits.returnPathKeysKeptMs)
      return keyOf(all.find(({ since }) => since <= accepted) ?? all.at(-1) ?? firstKey)
    },
    named: async (id) => {
      const known = (await keysReadWithin(limits.returnPathKeysKeptMs)).find((each) => each.id === id)
      // Another node may have begun to use it; guessed letters do not ask more than once a second.
      const found = known ?? (await keysReadWithin(1_000)).find((each) => each.id === id)
      return found && keyOf(found)
    },
  }
}

/** A new key for messages accepted from then on, when every node knows it. The oldest beyond a few is believed no more. */
export async function rotateReturnPathKey(db: Db): Promise<Used> {
  const before = await stored(db)
  const known = parse(before)
  const since = new Date((await databaseNow(db)).getTime() + 2 * limits.returnPathKeysKeptMs)
  const latest = letters.indexOf(known[0]?.id ?? 'a')
  const key = { id: letters[(latest + 1) % letters.length] as string, since }
  const value = JSON.stringify([key, ...known].slice(0, limits.returnPathKeysMax))
  const written = await db.rows(write, [value, before ?? ''])
  if (written.length === 0) throw new Error('the key was rotated by somebody else at the same time')
  return key
}
