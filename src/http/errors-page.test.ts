// docs/errors.md is what callers read beside the OpenAPI document: it names every code, each once, with the status that is sent.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { refusalCodes } from '../domain/refusal.ts'
import { refusals } from './refusals.ts'

const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')
const rows = [...page.matchAll(/^\| `(\w+)` \| (\d+) \| .+ \| .+ \|$/gm)].map(
  ([, code, status]) => [code, Number(status)] as const,
)

test('the page lists exactly the codes that there are', () => {
  expect(rows.map(([code]) => code)).toEqual([...refusalCodes])
})

test('the page says the status that each code is sent with', () => {
  expect(Object.fromEntries(rows)).toEqual(refusals)
})
