// docs/errors.md is what callers read beside the OpenAPI document: it names every code, each once, with the status that is sent, and what it begins with over SMTP.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { refusalCodes } from '../domain/refusal.ts'
import { refusals as smtpRefusals } from '../smtp/refusals.ts'
import { refusals } from './refusals.ts'

const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')
const rows = [...page.matchAll(/^\| `(\w+)` \| (\d+) \| ([\d. ]+|–) \| .+ \| .+ \|$/gm)].map(
  ([, code = '', status, reply]) => ({ code, status: Number(status), reply }),
)

test('the page lists exactly the codes that there are', () => {
  expect(rows.map(({ code }) => code)).toEqual([...refusalCodes])
})

test('the page says the status that each code is sent with', () => {
  expect(Object.fromEntries(rows.map(({ code, status }) => [code, status]))).toEqual(refusals)
})

test('and what a reply over SMTP begins with, but for what only HTTP, people and management are told', () => {
  const told = rows.filter(({ reply }) => reply !== '–').map(({ code, reply }) => [code, reply])
  const said = Object.entries(smtpRefusals).map(([code, { code: digits, enhanced }]) => [code, `${digits} ${enhanced}`])
  expect(told.length).toBeGreaterThan(15)
  expect(said).toEqual(expect.arrayContaining(told))
})
