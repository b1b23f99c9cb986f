import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { freshDatabase } from '../../test/world/postgres.ts'
import { schemaDump } from '../../tools/schema-dump.ts'

const here = import.meta.dirname
const schema = readFileSync(`${here}/schema.sql`, 'utf8')

/** Functions that this release calls no more, and the release that still does: when that is no longer the one before, a migration drops them. */
const calledOnlyBy: Readonly<Record<string, string>> = {
  end_removal_1: '4bf8324a',
  drop_unwanted_contents_1: '436de6c9',
}

test('schema.sql is what the migrations make; `npm run golden` renews it', async () => {
  const database = await freshDatabase()
  try {
    expect(await schemaDump(database.connection)).toBe(schema)
  } finally {
    await database.drop()
  }
})

test('each function is called by this release, by a table, or by the release before: none stays when its last caller has gone', () => {
  const [tables = '', ...functions] = schema.split(/^CREATE OR REPLACE FUNCTION public\./m)
  const bodies = Map.groupBy(functions, (text) => text.slice(0, text.indexOf('(')))
  const code = globSync(['*.ts', 'views/*.ts'], { cwd: here, exclude: ['*.test.ts', '*.test-kit.ts'] }).map((file) =>
    readFileSync(`${here}/${file}`, 'utf8'),
  )
  const reached = new Set<string>()
  const walk = (text: string): void => {
    for (const [, name = ''] of text.replace(/^\s*(?:--|\/\/|\/?\*).*$/gm, '').matchAll(/\b(\w+)\(/g)) {
      if (!bodies.has(name) || reached.has(name)) continue
      reached.add(name)
      for (const body of bodies.get(name) ?? []) walk(body.slice(body.indexOf('\n')))
    }
  }
  for (const text of [tables, ...code]) walk(text)
  expect(Object.keys(calledOnlyBy).filter((name) => reached.has(name) || !bodies.has(name))).toEqual([])
  for (const name of Object.keys(calledOnlyBy)) walk(`${name}(`)
  expect([...bodies.keys()].filter((name) => !reached.has(name))).toEqual([])
})
