import { describe, expect, test } from 'vitest'
import { makeRoom } from './room.ts'

const never = new AbortController().signal
/** Who is inside, in the order of coming in. */
async function queue(room: ReturnType<typeof makeRoom>, guests: readonly [string, number, AbortSignal?][]) {
  const inside: string[] = []
  const leaves = new Map<string, () => void>()
  for (const [name, bytes, signal = never] of guests)
    // The first letter of a name is its workspace.
    void room.enter(name.charAt(0), bytes, signal).then((leave) => {
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
  test('holds what fits; the others wait in line, and nobody is overtaken by a smaller one', async () => {
    const { inside, leave } = await queue(makeRoom(100, 100), [
      ['a', 60],
      ['b', 40],
      ['c', 70],
      ['d', 10],
    ])
    expect(inside).toEqual(['a', 'b'])
    await leave('b')
    expect(inside).toEqual(['a', 'b'])
    await leave('a')
    expect(inside).toEqual(['a', 'b', 'c', 'd'])
  })

  test('lets in what is bigger than a share when there is as much room as that', async () => {
    const { inside, leave } = await queue(makeRoom(100, 100), [
      ['a', 1],
      ['huge', 1_000],
      ['b', 1],
    ])
    expect(inside).toEqual(['a'])
    await leave('a')
    expect(inside).toEqual(['a', 'huge'])
    await leave('huge')
    expect(inside).toEqual(['a', 'huge', 'b'])
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
})
