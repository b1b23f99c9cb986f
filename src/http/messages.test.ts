// GET /api/v1/messages/{messageId}, specification 4.2: every status with its body.
import { describe, expect, test } from 'vitest'
import type { HttpDoors } from './face.ts'
import { Away, appWith, as, mailboxId, messageId, reading, workspaceId } from './face.test-kit.ts'

describe('GET /api/v1/messages/{messageId}, specification 4.2', () => {
  const found: HttpDoors['readStatus'] = (workspace, id) =>
    Promise.resolve(
      workspace !== workspaceId || id !== messageId
        ? undefined
        : {
            message: {
              id,
              workspaceId: workspace,
              mailboxId,
              status: 'sent',
              deliveryStatus: 'delivered',
              sender: 'shop@example.org',
              recipient: 'ada@example.com',
              subject: 'Your receipt',
              bodyText: '',
              providerMessageId: '250 queued as 1',
              createdAt: new Date('2026-11-21T09:30:00Z'),
              expiresAt: new Date('2026-11-22T09:30:00Z'),
              contentExpiredAt: new Date('2026-11-29T09:30:00Z'),
              metadata: { order: '1042', 'a\nb': 'c' },
            },
            events: [
              {
                id: '0199f1c2-0000-7000-8000-00000000000d',
                eventType: 'delivered',
                recipient: 'ada@example.com',
                detail: '250 2.0.0 ok',
                createdAt: new Date('2026-11-21T09:30:01.5Z'),
              },
            ],
          },
    )

  test('200: the queue state, the delivery state and the events', async () => {
    const response = await appWith({ readStatus: found }).app.inject(reading())
    expect(response.statusCode).toBe(200)
    expect(response.json()).toEqual({
      message: {
        id: messageId,
        organizationId: workspaceId,
        mailboxId,
        direction: 'outbound',
        status: 'sent',
        sender: 'shop@example.org',
        recipient: 'ada@example.com',
        subject: 'Your receipt',
        bodyText: '',
        providerMessageId: '250 queued as 1',
        metadata: { order: '1042', 'a\nb': 'c' },
        expiresAt: '2026-11-22T09:30:00.000Z',
        contentExpiredAt: '2026-11-29T09:30:00.000Z',
        createdAt: '2026-11-21T09:30:00.000Z',
      },
      processingStatus: 'sent',
      deliveryStatus: 'delivered',
      events: [
        {
          id: '0199f1c2-0000-7000-8000-00000000000d',
          eventType: 'delivered',
          recipient: 'ada@example.com',
          detail: '250 2.0.0 ok',
          createdAt: '2026-11-21T09:30:01.500Z',
        },
      ],
    })
  })

  test('a blocked workspace and a plan without sending can still read', async () => {
    const { app } = appWith({ readStatus: found, ...as({ blocked: true, apiSending: false }) })
    expect((await app.inject(reading())).statusCode).toBe(200)
  })

  test.each([
    [400, 'invalid_request', {}, 'not-a-uuid'],
    [401, 'invalid_api_key', { authenticate: () => Promise.resolve(undefined) }, 'not-a-uuid'],
    [403, 'insufficient_scope', as({ scopes: new Set(['mail.send']) }), 'not-a-uuid'],
    [404, 'not_found', {}, messageId],
    [500, 'internal_error', { readStatus: () => Promise.reject(new Error('secret')) }, messageId],
    [503, 'service_unavailable', { readStatus: () => Promise.reject(new Away()) }, messageId],
  ] as const)('%s: %s', async (status, code, doors, id) => {
    const response = await appWith(doors).app.inject(reading(id))
    expect([response.statusCode, response.json()]).toEqual([
      status,
      expect.objectContaining({ error: expect.any(String) as unknown, code }),
    ])
  })

  test.each([
    [messageId.toUpperCase(), 200],
    ['00000000-0000-0000-0000-000000000000', 404],
    ['ffffffff-ffff-ffff-ffff-ffffffffffff', 404],
    [`{${messageId}}`, 400],
    [messageId.replaceAll('-', ''), 400],
    [`urn:uuid:${messageId}`, 400],
    [`${messageId}%2F`, 400],
    [`${messageId}%00`, 400],
    [`${messageId}%20`, 400],
    [`${messageId}'%20OR%201=1--`, 400],
    ['0'.repeat(36), 400],
    ['x'.repeat(3_000), 400],
    ['%zz', 400],
    ['%ff', 400],
    ['', 400],
    [`${messageId}/`, 404],
    [`${messageId}?`, 200],
    [`${messageId}?include=timeline`, 400],
  ])('the id %.60s answers %i (attack Q12)', async (id, status) => {
    const response = await appWith({ readStatus: found }).app.inject(reading(id))
    expect(response.statusCode).toBe(status)
    if (status !== 200) expect(Object.keys(response.json<object>())).toEqual(expect.arrayContaining(['error', 'code']))
  })

  test.each(['/api/v1/suppressions/%ff', '/api/v1/suppressions/a%4', '/nowhere/%zz'])(
    '%s has a malformed percent-encoding, and is told so',
    async (url) => {
      const response = await appWith().app.inject({ method: 'DELETE', url })
      expect(response.statusCode).toBe(400)
      expect(response.json()).toMatchObject({
        code: 'invalid_request',
        field: 'path',
        error: expect.stringContaining('malformed percent-encoding') as string,
      })
    },
  )

  test('an id that cannot even be decoded asks for the key first', async () => {
    const response = await appWith().app.inject(reading('%zz', { authorization: 'Bearer wrong' }))
    expect([response.statusCode, response.headers['www-authenticate']]).toEqual([401, 'Bearer'])
    expect(response.headers['x-request-id']).toMatch(/./)
  })
})
