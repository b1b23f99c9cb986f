// The dashboard as it is served; what a browser makes of it is tried in test/dashboard.
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { builtDashboard } from '../dashboard-build.ts'
import { buildApp } from './app.ts'
import { appWith, optionsWith } from './face.test-kit.ts'

const page = { accept: 'text/html,application/xhtml+xml' }
const spare = temporaryFolder()
const told: string[] = []
const folder = await builtDashboard(spare, (sentence) => told.push(sentence))
const app = buildApp({ ...optionsWith(), dashboard: () => folder })

test('what was built once is found again, and not built again', async () => {
  const before = told.length
  await builtDashboard(spare, (sentence) => told.push(sentence))
  expect(told).toHaveLength(before)
})

test.each(['/', '/index.html', '/messages', '/messages/0199f1c2-0000-7000-8000-00000000000c', '/no/such/page'])(
  'a browser that goes to %s gets the page, under a policy without any exception',
  async (url) => {
    const response = await app.inject({ url, headers: page })
    expect(response.statusCode).toBe(200)
    expect(response.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(response.headers).toMatchObject({ 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff' })
    const policy = String(response.headers['content-security-policy'])
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("require-trusted-types-for 'script'")
    expect(policy).not.toMatch(/unsafe|https?:|\*/)
    expect(response.body).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style/i)
  },
)

test('its files are there, compressed, and may be kept for ever; the first load is under 175 KB of JavaScript', async () => {
  const { body } = await app.inject({ url: '/', headers: page })
  const scripts = [...body.matchAll(/(?:src|href)="(\/[^"]+\.js)"/g)].map(([, path = '']) => path)
  const answers = await Promise.all(scripts.map((url) => app.inject({ url, headers: { 'accept-encoding': 'gzip' } })))
  for (const [at, answer] of answers.entries()) {
    expect(answer.statusCode).toBe(200)
    const hashed = scripts[at]?.startsWith('/assets/') === true
    expect(answer.headers['cache-control']).toBe(hashed ? 'public, max-age=31536000, immutable' : 'no-cache')
  }
  const bytes = answers.reduce((sum, { rawPayload }) => sum + rawPayload.length, 0)
  expect(bytes).toBeGreaterThan(10_000)
  expect(bytes).toBeLessThan(175_000)
})

test.each([
  ['/api/v1/nothing', page],
  ['/assets/nothing.js', page],
  ['/assets/..%2f..%2fpackage.json', page],
  ['/nothing', { accept: 'application/json' }],
  ['/nothing', {}],
] as const)('what is no page of it, like %s, is still not found', async (url, headers) => {
  const response = await app.inject({ url, headers })
  expect([response.statusCode, response.json()]).toEqual([404, expect.objectContaining({ code: 'not_found' })])
})

describe('where it could not be built', () => {
  test('a person is told so, and the API goes on', async () => {
    const { app } = appWith()
    const response = await app.inject({ url: '/', headers: page })
    expect(response.statusCode).toBe(503)
    expect(response.body).toContain('could not be built')
    expect((await app.inject('/healthz')).statusCode).toBe(200)
  })

  // Another start in the same folder, of other sources, takes the build of those before away.
  test('or was taken away before anybody looked, nobody is told of the database', async () => {
    const app = buildApp({ ...optionsWith(), dashboard: () => `${spare}/taken-away` })
    const response = await app.inject({ url: '/', headers: page })
    expect(response.statusCode).toBe(503)
    expect(response.body).toContain('start again')
    expect(response.body).toContain('files are gone')
  })
})
