import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { appWith, goodKey, sending, validBody } from './face.test-kit.ts'

test('a slowed guess is still 401, and a good key of the same address is not slowed (attack T6)', async () => {
  const { app } = appWith()
  const guess = sending(validBody, { authorization: 'Bearer wrong' })
  for (let each = 0; each < limits.guessesFree; each++) expect((await app.inject(guess)).statusCode).toBe(401)
  const order: string[] = []
  await Promise.all([
    app.inject(guess).then((response) => order.push(`guess ${response.statusCode}`)),
    app
      .inject(sending(validBody, { authorization: `Bearer ${goodKey}` }))
      .then((response) => order.push(`good ${response.statusCode}`)),
  ])
  expect(order).toEqual(['good 202', 'guess 401'])
})
