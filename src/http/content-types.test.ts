// What a request calls its body is judged where the body is read, behind the key: never by the library, whose refusal is a fault of ours to everybody.
import { expect, test } from 'vitest'
import { appWith, as, goodKey } from './face.test-kit.ts'

const none = ['json', '', ' ', ';', 'a/b/c', 'application/', '"', 'application/json, application/json', 'é/x']
const { app, seen } = appWith(as({ scopes: new Set(['mail.send', 'suppressions.write', 'webhooks.write']) }))
const asking = async (method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', url: string, type: string, key?: string) => {
  const headers = { 'content-type': type, ...(key !== undefined && { authorization: `Bearer ${key}` }) }
  const answer = await app.inject({ method, url: `/api/v1${url}`, headers, payload: '{"url":"https://x.example"}' })
  return [answer.statusCode, answer.json<{ code?: string; field?: string }>()] as const
}

test.each(none)(
  'a type that is none (%j) is refused by name, to who may ask at all, and is no fault of ours',
  async (type) => {
    expect(await asking('PUT', '/webhook', type)).toMatchObject([401, { code: 'not_signed_in' }])
    expect(await asking('PATCH', '/workspace', type)).toMatchObject([401, { code: 'not_signed_in' }])
    expect(await asking('PUT', '/webhook', type, goodKey)).toMatchObject([
      400,
      { code: 'invalid_request', field: 'Content-Type' },
    ])
    expect(await asking('POST', '/session', type)).toMatchObject([403, { code: 'cross_site_request' }])
    // What takes no body does not look at its type.
    expect(await asking('DELETE', '/suppressions/nobody', type)).toMatchObject([401, { code: 'not_signed_in' }])
    expect(seen.logged.filter(({ verb }) => verb === 'fault')).toEqual([])
  },
)

test('a compressed body is refused by name wherever JSON is read, and "identity" means none, in any case (RFC 9110 8.4.1)', async () => {
  const headers = { authorization: `Bearer ${goodKey}`, 'content-type': 'application/json' }
  for (const [method, url] of [
    ['PUT', '/webhook'],
    ['POST', '/suppressions'],
    ['POST', '/send'],
  ] as const) {
    const ask = (coding: string) =>
      app.inject({ method, url: `/api/v1${url}`, headers: { ...headers, 'content-encoding': coding }, payload: '{}' })
    for (const coding of ['gzip', 'identity, gzip', ''])
      expect((await ask(coding)).json(), `${url} ${coding}`).toMatchObject({
        code: 'invalid_request',
        field: 'Content-Encoding',
      })
    expect((await ask('Identity')).json()).not.toMatchObject({ field: 'Content-Encoding' })
  }
})
