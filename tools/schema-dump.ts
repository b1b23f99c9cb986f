// The schema of a migrated database as text, read from PostgreSQL's own catalog: what src/store/schema.sql holds and
// src/store/schema.test.ts compares. Order and words depend on nothing but the schema. Partitions are left out, since their names are
// dates, and so are the migrator's own tables.
import { Client } from 'pg'

type Connection = string | { host: string; port: number; user: string; password: string; database: string }

const head = `-- The schema that the migrations make: read it, never run it. Made by \`npm run golden\` from PostgreSQL's catalog; a test compares.
-- Left out: partitions (made ahead by ensure_partitions) and the migrator's own tables.
`

const isOurs = `c.relnamespace = 'public'::regnamespace and not c.relispartition and c.relname not like 'kysely%'`

const tables = `
  select c.oid, c.relname name, c.reloptions options, c.relreplident = 'f' "wholeRows",
         case when c.relkind = 'p' then pg_get_partkeydef(c.oid) end partitioned
    from pg_class c where c.relkind in ('r', 'p') and ${isOurs} order by c.relname collate "C"`

const columns = `
  select a.attrelid table, a.attname name, format_type(a.atttypid, a.atttypmod) type, a.attnotnull required,
         case a.attgenerated when '' then 'default ' || pg_get_expr(d.adbin, d.adrelid)
                             when 's' then 'generated always as ' || pg_get_expr(d.adbin, d.adrelid) || ' stored' end "filledBy",
         case when a.attstorage <> t.typstorage
              then case a.attstorage when 'e' then 'external' when 'm' then 'main' when 'p' then 'plain' else 'extended' end end storage
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_type t on t.oid = a.atttypid
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
   where c.relkind in ('r', 'p') and ${isOurs} and a.attnum > 0 and not a.attisdropped
   order by a.attrelid, a.attnum`

// A column's "not null" stands with the column; PostgreSQL 18 counts it as a constraint too.
const constraints = `
  select k.conrelid table, k.conname name, pg_get_constraintdef(k.oid) definition
    from pg_constraint k join pg_class c on c.oid = k.conrelid
   where ${isOurs} and k.contype in ('p', 'u', 'f', 'c', 'x')
   order by k.conrelid, position(k.contype::text in 'pufcx'), k.conname collate "C"`

const indexes = `
  select i.indrelid table, pg_get_indexdef(i.indexrelid) definition
    from pg_index i join pg_class c on c.oid = i.indrelid join pg_class n on n.oid = i.indexrelid
   where ${isOurs} and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x'))
   order by i.indrelid, n.relname collate "C"`

const triggers = `
  select t.tgrelid table, pg_get_triggerdef(t.oid) definition
    from pg_trigger t join pg_class c on c.oid = t.tgrelid
   where ${isOurs} and not t.tgisinternal order by t.tgrelid, t.tgname collate "C"`

const views = `
  select c.relname name, pg_get_viewdef(c.oid) definition from pg_class c where c.relkind = 'v' and ${isOurs} order by c.relname collate "C"`

const functions = `
  select pg_get_functiondef(p.oid) definition from pg_proc p
   where p.pronamespace = 'public'::regnamespace and p.prokind = 'f'
     and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
   order by p.proname collate "C", pg_get_function_identity_arguments(p.oid) collate "C"`

interface Table {
  readonly oid: string
  readonly name: string
  readonly options: readonly string[] | null
  /** Its rows are told apart by all their columns, for who copies changes. */
  readonly wholeRows: boolean
  readonly partitioned: string | null
}
interface Column {
  readonly table: string
  readonly name: string
  readonly type: string
  readonly required: boolean
  readonly filledBy: string | null
  readonly storage: string | null
}
interface Part {
  readonly table: string
  readonly name: string
  readonly definition: string
}

/** The text of src/store/schema.sql for this database. */
export async function schemaDump(connection: Connection): Promise<string> {
  const client = new Client(connection)
  await client.connect()
  try {
    const read = async <Row extends object>(text: string) => (await client.query<Row>(text)).rows
    // Names in definitions come without their schema only while it is in the path.
    await client.query(`set search_path = public`)
    const parts = {
      columns: await read<Column>(columns),
      constraints: await read<Part>(constraints),
      indexes: await read<Part>(indexes),
      triggers: await read<Part>(triggers),
    }
    const bodies = (await read<Part>(functions)).map(({ definition }) => definition.trimEnd() + ';')
    const shapes = (await read<Table>(tables)).map((table) => shapeOf(table, parts))
    const lenses = (await read<Omit<Part, 'table'>>(views)).map(
      ({ name, definition }) => `create view ${name} as\n${definition}\n`,
    )
    return [head, ...shapes, ...lenses, ...bodies].join('\n').trimEnd() + '\n'
  } finally {
    await client.end()
  }
}

interface Parts {
  readonly columns: readonly Column[]
  readonly constraints: readonly Part[]
  readonly indexes: readonly Part[]
  readonly triggers: readonly Part[]
}

function shapeOf(table: Table, { columns, constraints, indexes, triggers }: Parts): string {
  const mine = <Each extends { readonly table: string }>(all: readonly Each[]) =>
    all.filter((each) => each.table === table.oid)
  const lines = [
    ...mine(columns).map(columnLine),
    ...mine(constraints).map(({ name, definition }) => `constraint ${name} ${definition}`),
  ]
  const partitioned = table.partitioned === null ? '' : ` partition by ${table.partitioned}`
  const options = table.options === null ? '' : ` with (${[...table.options].sort().join(', ')})`
  return [
    `create table ${table.name} (\n  ${lines.join(',\n  ')}\n)${partitioned}${options};`,
    ...(table.wholeRows ? [`alter table ${table.name} replica identity full;`] : []),
    ...[...mine(indexes), ...mine(triggers)].map(({ definition }) => `${definition};`),
    '',
  ].join('\n')
}

function columnLine({ name, type, required, filledBy, storage }: Column): string {
  return [
    name,
    type,
    ...(storage === null ? [] : [`storage ${storage}`]),
    ...(required ? ['not null'] : []),
    ...(filledBy === null ? [] : [filledBy]),
  ].join(' ')
}
