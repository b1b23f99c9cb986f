import { describe, expect, test } from 'vitest'
import { makeRoom } from './room.ts'

const never = new AbortController().signal
/** Who is inside, in the order of coming in. */
async function queue(room: ReturnType<typeof makeRoom>, guests: readonly [string, number, AbortSignal?][]) {
  const inside: string[] = []
  const leaves = new Map<string, () => void>()
  for (const [name, bytes, signal = never] of guests)
    // The first letter of a name is its workspace.
    void room.enter({ owner: name.charAt(0), heardAt: 0 }, bytes, signal).then((leave) => {
      inside.push(name)
      leaves.set(name, leave)
    })
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  await settle()
  return {
    inside,
    leave: async (name: string) => {
      leaves.get(name)?.()
      await settle()
    },
    settle,
  }
}

describe('the room', () => {
  test('holds what fits; the others wait in line, and a large one is overtaken by some smaller ones, not by ever more', async () => {
    const { inside, leave } = await queue(makeRoom(100, 100), [
      ['a', 60],
      ['b', 40],
      ['c', 70],
      ['d', 10],
      ['e', 15],
      ['f', 1],
    ])
    expect(inside).toEqual(['a', 'b'])
    await leave('b')
    expect(inside).toEqual(['a', 'b', 'd', 'e'])
    await leave('a')
    expect(inside).toEqual(['a', 'b', 'd', 'e', 'c', 'f'])
  })

  test('lets in what is bigger than a share when there is as much room as that', async () => {
    const { inside, leave } = await queue(makeRoom(100, 100), [
      ['a', 1],
      ['huge', 1_000],
      ['b', 1],
    ])
    expect(inside).toEqual(['a', 'b'])
    await leave('a')
    expect(inside).toEqual(['a', 'b'])
    await leave('b')
    expect(inside).toEqual(['a', 'b', 'huge'])
  })

  test('leaves room for the others, whatever one workspace holds and waits for', async () => {
    const { inside, leave } = await queue(makeRoom(100, 60), [
      ['a1', 60],
      ['a2', 60],
      ['a3', 1],
      ['b1', 40],
    ])
    expect(inside).toEqual(['a1', 'b1'])
    await leave('a1')
    expect(inside).toEqual(['a1', 'b1', 'a2'])
  })

  test('asks nothing of those who hold nothing, however full it is', async () => {
    const { inside } = await queue(makeRoom(10, 10), [
      ['a', 10],
      ['b', 5],
      ['light', 0],
    ])
    expect(inside.toSorted()).toEqual(['a', 'light'])
  })

  test('is given back once, however often it is', async () => {
    const { inside, leave } = await queue(makeRoom(10, 10), [
      ['a', 5],
      ['b', 5],
      ['c', 5],
      ['d', 5],
    ])
    await leave('a')
    await leave('a')
    expect(inside).toEqual(['a', 'b', 'c'])
  })

  test('who gives up leaves the line, and takes no room with it', async () => {
    const tired = new AbortController()
    const { inside, leave, settle } = await queue(makeRoom(10, 10), [
      ['a', 10],
      ['tired', 10, tired.signal],
      ['b', 10],
    ])
    tired.abort()
    await settle()
    expect(inside).toEqual(['a', 'tired'])
    await leave('tired')
    expect(inside).toEqual(['a', 'tired'])
    await leave('a')
    expect(inside).toEqual(['a', 'tired', 'b'])
  })

  describe('is in the way of others', () => {
    const room = makeRoom(100, 60)
    const guest = (owner: string, heardAt: number) => ({ owner, heardAt })
    const [a1, a2, b] = [guest('a', 3), guest('a', 1), guest('b', 2)]
    const enter = async (who: ReturnType<typeof guest>, bytes: number) => {
      const gone = new AbortController()
      void room.enter(who, bytes, gone.signal)
      await new Promise((resolve) => setImmediate(resolve))
      return () => gone.abort()
    }

    test('where nobody waits: nobody', async () => {
      await enter(a1, 30)
      await enter(a2, 30)
      await enter(b, 40)
      expect(room.inTheWay(10)).toEqual([])
    })

    test('who was not heard of, the longest silent first, and no more than hold what is waited for', async () => {
      const leave = await enter(guest('c', 0), 35)
      expect(room.inTheWay(10)).toEqual([a2, b])
      expect(room.inTheWay(2)).toEqual([a2])
      expect(room.inTheWay(1)).toEqual([])
      leave()
    })

    test('who has left, or holds nothing: never, however long nothing was heard', async () => {
      const other = makeRoom(100, 100)
      const [gone, light, held] = [guest('d', 1), guest('e', 1), guest('f', 2)]
      const leave = await other.enter(gone, 50, never)
      await other.enter(light, 0, never)
      await other.enter(held, 100, AbortSignal.timeout(0)).then((giveUp) => giveUp())
      leave()
      await other.enter(held, 100, never)
      const waits = new AbortController()
      const waiting = other.enter(guest('g', 9), 10, waits.signal)
      expect(other.inTheWay(10)).toEqual([held])
      waits.abort()
      await waiting
    })

    test('for a workspace beyond its share: its own alone', async () => {
      const leave = await enter(guest('a', 0), 50)
      expect(room.inTheWay(10)).toEqual([a2, a1])
      leave()
    })
  })
})
