// Owners take turns, within a share; nobody waits for ever.
import { expect, test } from 'vitest'
import { currentOwner, doneFor, inTurn, turnFor, TurnTooLate, turns } from './turns.ts'

const settled = () => new Promise((resolve) => setImmediate(resolve))

/** Who has come in, in this order; each leaves by its name. */
function asked(limits: Parameters<typeof turns>[0]) {
  const enter = turns(limits)
  const inside: string[] = []
  const leaves = new Map<string, () => void>()
  /** The first letter of a name is its owner; `-` the installation. */
  const come = (...names: string[]) => {
    for (const name of names)
      void doneFor(name.charAt(0).replace('-', ''), enter).then((leave) => {
        inside.push(name)
        leaves.set(name, leave)
      })
    return settled()
  }
  const leave = (name: string) => {
    leaves.get(name)?.()
    return settled()
  }
  return { inside, come, leave }
}

test('of one owner come so many, and the others find room', async () => {
  const { inside, come, leave } = asked({ most: 3, share: 2 })
  await come('a1', 'a2', 'a3', 'a4', 'b1')
  expect(inside).toEqual(['a1', 'a2', 'b1'])
  await come('c1')
  await leave('a1')
  expect(inside).toEqual(['a1', 'a2', 'b1', 'a3'])
  await leave('b1')
  expect(inside.slice(4)).toEqual(['c1'])
})

test('whoever has waited counts like the others: neither an owner nor all together have more than their part, however long they come and go', async () => {
  const { inside, come, leave } = asked({ most: 3, share: 2 })
  const here = new Set<string>()
  const all = ['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'b2', 'b3', 'b4', 'b5', 'c1', 'c2', 'c3', 'c4', 'c5']
  await come(...all)
  for (let seen = 0; seen < all.length;) {
    for (const name of inside.slice(seen)) here.add(name)
    seen = inside.length
    expect(here.size).toBeLessThanOrEqual(3)
    for (const owner of 'abc') expect([...here].filter((name) => name.startsWith(owner)).length).toBeLessThanOrEqual(2)
    const [first = ''] = here
    here.delete(first)
    await leave(first)
  }
  expect(inside.toSorted()).toEqual(all)
})

test('a turn that ends is not for an owner that has its share', async () => {
  const { inside, come, leave } = asked({ most: 2, share: 1 })
  await come('a1', 'b1', 'a2')
  await leave('b1')
  expect(inside).toEqual(['a1', 'b1'])
  await leave('a1')
  expect(inside).toEqual(['a1', 'b1', 'a2'])
})

test('a turn ends with the work, be it in vain; who waits for one in vain is told in the words of whoever asks', async () => {
  const enter = turns({ most: 1, share: 1, waitMs: 5 })
  const order: string[] = []
  const work = async (name: string) => {
    order.push(`${name} begins`)
    await settled()
    order.push(`${name} ends`)
    throw new Error(name)
  }
  const ends = await Promise.allSettled(['one', 'two'].map((name) => inTurn(enter, () => work(name))))
  expect(ends).toMatchObject([{ reason: { message: 'one' } }, { reason: { message: 'two' } }])
  expect(order).toEqual(['one begins', 'one ends', 'two begins', 'two ends'])
  const busy = () => new Error('busy')
  const leave = await turnFor('a', enter, busy)
  await expect(turnFor('b', enter, busy)).rejects.toThrow('busy')
  leave()
  const broken = () => Promise.reject(new Error('a fault'))
  await expect(turnFor('b', broken, busy)).rejects.toThrow('a fault')
})

test('who waits comes in by turns of the owners, not in the order of arrival', async () => {
  const { inside, come, leave } = asked({ most: 1, share: 1 })
  await come('a1', 'a2', 'a3', 'b1')
  for (const name of ['a1', 'a2', 'b1']) await leave(name)
  expect(inside).toEqual(['a1', 'a2', 'b1', 'a3'])
})

test('the installation itself has no share, and takes turns like everybody', async () => {
  const { inside, come, leave } = asked({ most: 2, share: 1 })
  await come('-1', '-2', '-3', 'a1')
  expect(inside).toEqual(['-1', '-2'])
  await leave('-1')
  await leave('-2')
  expect(inside).toEqual(['-1', '-2', '-3', 'a1'])
})

test('who waits too long is told so, and takes nobody’s turn', async () => {
  const enter = turns({ most: 1, share: 1, waitMs: 5 })
  const leave = await doneFor('a', enter)
  await expect(doneFor('b', enter)).rejects.toBeInstanceOf(TurnTooLate)
  leave()
  ;(await doneFor('c', enter))()
})

test('who is given up leaves the line, and takes nobody’s turn', async () => {
  const enter = turns({ most: 1, share: 1 })
  const leave = await doneFor('a', enter)
  const giving = new AbortController()
  const waiting = doneFor('b', () => enter(giving.signal))
  giving.abort()
  await expect(waiting).rejects.toBeInstanceOf(TurnTooLate)
  leave()
  await expect(enter(giving.signal)).rejects.toBeInstanceOf(TurnTooLate)
  ;(await doneFor('c', enter))()
})

test('whose work it is goes along with it', async () => {
  const owner = await doneFor('a', async () => {
    await settled()
    return currentOwner()
  })
  expect([owner, currentOwner()]).toEqual(['a', ''])
})
