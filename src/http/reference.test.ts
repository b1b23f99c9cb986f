// What the browser makes of the page was looked at in Chromium: no request leaves this origin, no violation of the
// policy.
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { openapiJson } from '../contract/openapi.ts'
import { appWith } from './face.test-kit.ts'

const { app } = appWith()

test('the document is served as the contract makes it, for this base URL', async () => {
  const response = await app.inject('/api/v1/openapi.json')
  expect(response.headers['content-type']).toBe('application/json; charset=utf-8')
  expect(response.body).toBe(openapiJson('http://localhost:3000'))
})

test('the page names only addresses of this origin, and its policy allows no other', async () => {
  const response = await app.inject('/docs')
  expect(response.statusCode).toBe(200)
  expect(response.body).not.toMatch(/https?:|\/\/[a-z]/i)
  const policy = String(response.headers['content-security-policy'])
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("script-src 'self';")
  expect(policy).toContain("connect-src 'self';")
  expect(policy).not.toMatch(/https?:|\*|unsafe-eval/)
})

test('its scripts are there, whole, compressed, and may be kept for ever', async () => {
  const page = await app.inject('/docs')
  const paths = [...page.body.matchAll(/<script src="([^"]+)"/g)].map(([, path]) => `/${path}`)
  expect(paths).toHaveLength(2)
  for (const url of paths) {
    const zipped = await app.inject({ url, headers: { 'accept-encoding': 'br, gzip' } })
    expect(zipped.statusCode).toBe(200)
    expect(zipped.headers).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'content-encoding': 'gzip',
      'cache-control': 'public, max-age=31536000, immutable',
    })
    const plain = await app.inject({ url, headers: { 'accept-encoding': 'gzip;q=0, br' } })
    expect(plain.headers['content-encoding']).toBeUndefined()
    expect(gunzipSync(zipped.rawPayload).equals(plain.rawPayload)).toBe(true)
    expect(plain.body).toContain('createApiReference')
    expect(plain.body).not.toContain('sourceMappingURL=standalone')
  }
})

test.each([
  ['gzip', 'gzip'],
  ['br;q=1.0, *;q=0.1', 'gzip'],
  ['GZIP ; Q=0.5', 'gzip'],
  ['gzip;q=0, *', undefined],
  ['*, gzip;q=0.000', undefined],
  ['gzip, *;q=0', 'gzip'],
  ['*;q=0', undefined],
  ['identity', undefined],
  ['', undefined],
])('who says that %j is taken gets the coding %j (RFC 9110 12.5.3)', async (said, coding) => {
  const { headers } = await app.inject({ url: '/docs', headers: { 'accept-encoding': said } })
  expect(headers['content-encoding']).toBe(coding)
})

test('what the caller knows already is not sent again', async () => {
  for (const url of ['/docs', '/api/v1/openapi.json']) {
    const first = await app.inject({ url, headers: { 'accept-encoding': 'gzip' } })
    const etag = String(first.headers.etag)
    expect(etag).toMatch(/^"[\w-]{22}-gzip"$/)
    const again = await app.inject({ url, headers: { 'accept-encoding': 'gzip', 'if-none-match': `"x", W/${etag}` } })
    expect([again.statusCode, again.body]).toEqual([304, ''])
    const other = await app.inject({ url, headers: { 'if-none-match': etag } })
    expect(other.statusCode).toBe(200)
  }
})
