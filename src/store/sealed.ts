// Everything that is sealed, in one table: a rotation of the installation key walks it and seals each value anew. Values are compared when they
// are replaced, so that what somebody writes at the same time stays; a walk that was cut off begins again and finds the rest.
import { sealedAs, type Vault } from '../base/secret.ts'
import { sql, type Db, type Statement } from './database.ts'
import { leastId } from './message-id.ts'

interface Sealed {
  readonly table: string
  readonly column: string
  /** The primary key, and the type of each part. */
  readonly key: Readonly<Record<string, 'uuid' | 'text'>>
  /** What else `context` needs to know of the row (`t`). */
  readonly more?: string
  readonly context: (row: Readonly<Record<string, string>>) => string
}

/** A test compares it with the columns of the schema. */
export const sealedColumns: readonly Sealed[] = [
  {
    table: 'dkim_key_pairs',
    column: 'private_key_sealed',
    key: { workspace_id: 'uuid', domain_id: 'uuid', selector: 'text' },
    more: `, (select d.name from domains d where d.workspace_id = t.workspace_id and d.id = t.domain_id) domain`,
    context: (row) => sealedAs.dkimKey(row['workspace_id'] as string, row['domain'] as string),
  },
  {
    table: 'workspaces',
    column: 'route_sealed',
    key: { id: 'uuid' },
    context: (row) => sealedAs.route(row['id'] as string),
  },
  {
    table: 'feeds',
    column: 'secret_sealed',
    key: { id: 'uuid' },
    context: (row) => sealedAs.feed(row['id'] as string),
  },
  ...['totp_sealed', 'totp_pending_sealed'].map((column): Sealed => ({
    table: 'users',
    column,
    key: { id: 'uuid' },
    context: (row) => sealedAs.totp(row['id'] as string),
  })),
  ...['secret_sealed', 'next_sealed', 'previous_sealed'].map((column): Sealed => ({
    table: 'webhook_endpoints',
    column,
    key: { workspace_id: 'uuid' },
    context: (row) => sealedAs.webhookSecret(row['workspace_id'] as string),
  })),
]

const pageRows = 500

/** Its key, as text, and what is sealed. */
type SealedRow = { readonly sealed: Buffer } & Readonly<Record<string, string | Buffer>>

interface Statements {
  readonly page: Statement
  readonly replace: Statement
}

function statementsFor({ table, column, key, more = '' }: Sealed): Statements {
  const names = Object.keys(key)
  const types = Object.values(key)
  const given = types.map((type, at) => `$${at + 1}::${type}`).join(', ')
  const shown = names.map((name) => `t.${name}::text ${name}`).join(', ')
  const row = names.map((name) => `t.${name}`).join(', ')
  return {
    page: sql(
      `page-sealed-${table}-${column}`,
      `select ${shown}${more}, t.${column} sealed from ${table} t where (${row}) > (${given}) and t.${column} is not null
        order by ${row} limit ${pageRows}`,
    ),
    replace: sql(
      `reseal-${table}-${column}`,
      `update ${table} t set ${column} = $${names.length + 2} where (${row}) = (${given}) and t.${column} = $${names.length + 1} returning 1 one`,
    ),
  }
}

const walks = sealedColumns.map((sealed) => ({ sealed, statements: statementsFor(sealed) }))

export interface Resealed {
  /** Values that were looked at. */
  readonly seen: number
  /** Values that were sealed with an older key, and are not any more. */
  readonly resealed: number
}

/** One walk over everything. */
export async function resealAll(db: Db, vault: Vault): Promise<Resealed> {
  let seen = 0
  let resealed = 0
  for (const { sealed, statements } of walks) {
    const names = Object.keys(sealed.key)
    let after: string[] = Object.values(sealed.key).map((type) => (type === 'uuid' ? leastId : ''))
    for (;;) {
      const rows = await db.rows<SealedRow>(statements.page, after)
      for (const { sealed: bytes, ...key } of rows) {
        seen += 1
        if (await reseal(db, vault, sealed, statements, key, bytes)) resealed += 1
      }
      const last = rows.at(-1)
      if (last === undefined || rows.length < pageRows) break
      after = names.map((name) => last[name] as string)
    }
  }
  return { seen, resealed }
}

async function reseal(
  db: Db,
  vault: Vault,
  { key, context }: Sealed,
  { replace }: Statements,
  row: Readonly<Record<string, string | Buffer>>,
  before: Buffer,
): Promise<boolean> {
  const place = context(row as Readonly<Record<string, string>>)
  if (vault.isCurrent(before, place)) return false
  const after = vault.seal(vault.open(before, place), place)
  const names = Object.keys(key).map((name) => row[name] as string)
  return (await db.rows(replace, [...names, before, after])).length === 1
}
