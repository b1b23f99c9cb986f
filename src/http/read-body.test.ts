// Bodies on a real socket, in a room of the test's own: what is held, and that it is given back however the body ends.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ByteRoom } from '../base/byte-room.ts'
import { silentLog } from '../base/log.ts'
import { limits } from '../config.ts'
import { bodyLimit, readBody, roomsOfCallers, roomsOfStrangers, type Body, type BodyRooms } from './read-body.ts'
import { SlowRoom } from './slow-room.ts'
import { isRefusal, type Refusal } from '../domain/refusal.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

const most = 4 * limits.largeRequestBytes
const limit = bodyLimit(most, 'Too large.')
const large = Buffer.from(Array.from({ length: limits.largeRequestBytes + 70_001 }, (_, at) => at % 251))
const inChunks = Buffer.concat([Buffer.from(`${large.length.toString(16)}\r\n`), large, Buffer.from('\r\n0\r\n\r\n')])
const chunked = 'Transfer-Encoding: chunked'
const roomOf = (waitMs: number): ByteRoom =>
  new ByteRoom({ bytesMax: 2 * most, shareBytesMax: most, waitMs, waitingMax: 10 })

/** Heard before the reader hears, who gives pieces back. */
const arrived = (incoming: IncomingMessage, bytes: number): Promise<void> =>
  new Promise((resolve) => {
    if (bytes === 0) return resolve()
    let left = bytes
    incoming.prependListener('data', (chunk: Buffer) => (left -= chunk.length) <= 0 && resolve())
  })
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
function usedMemory(): number {
  collect()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
const rooms = (large: ByteRoom, slowBytesMax = Infinity): BodyRooms => ({
  large,
  slow: new SlowRoom(slowBytesMax),
  open: { until: Infinity },
})

/** A request with this header, and the pair that a server has of it. */
async function request(header: string) {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const socket: Socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => undefined)
  cleanups.push(() => {
    socket.destroy()
    return new Promise((resolve) => server.close(resolve))
  })
  const came = once(server, 'request') as Promise<[IncomingMessage, ServerResponse]>
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\n${header}\r\n\r\n`)
  const [incoming, outgoing] = await came
  incoming.on('error', () => undefined)
  return { socket, incoming, outgoing }
}
const bodyOf = (answer: Body | Refusal): Body => {
  if (isRefusal(answer)) throw new Error(answer.words)
  return answer
}

test.each([
  ['that is large', `Content-Length: ${large.length}`, large, 100],
  ['in chunks that grows large', chunked, inChunks, 100],
  ['in small pieces', chunked, Buffer.from('1\r\na\r\n1\r\nb\r\n'), 6],
])(
  'a body %s for which the system has no memory is told to come again, and holds no room',
  async (_, header, bytes, first) => {
    const room = roomOf(0)
    const { socket, incoming, outgoing } = await request(header)
    const alloc = vi.spyOn(Buffer, 'allocUnsafeSlow').mockImplementation(() => {
      throw Object.assign(new RangeError('Failed to allocate memory'), { code: 'ERR_MEMORY_ALLOCATION_FAILED' })
    })
    cleanups.push(() => alloc.mockRestore())
    socket.write(bytes.subarray(0, first))
    const answer = readBody(incoming, outgoing, rooms(room), 'w', limit)
    if (header === chunked) {
      await arrived(incoming, 1)
      socket.write(bytes.subarray(first))
    }
    expect(await answer).toMatchObject({ code: 'service_unavailable' })
    expect(room.heldBytes).toBe(0)
  },
)

test('a body in chunks that grows large is whole, and holds as much room of its owner as it is large', async () => {
  const room = roomOf(0)
  const { socket, incoming, outgoing } = await request(chunked)
  socket.write(inChunks)
  const body = bodyOf(await readBody(incoming, outgoing, rooms(room), 'owner', limit))
  expect(body.bytes.equals(large)).toBe(true)
  expect([body.heldBytes, room.heldBytes]).toEqual([large.length, large.length])
  expect(await room.take('owner', most - large.length + 1)).toBe(false)
  expect(await room.take('owner', most - large.length)).toBe(true)
})

test('a body in chunks that finds no room when it grows large is told to come again', async () => {
  const room = roomOf(0)
  await room.take('owner', most)
  const { socket, incoming, outgoing } = await request(chunked)
  socket.write(inChunks)
  expect(await readBody(incoming, outgoing, rooms(room), 'owner', limit)).toMatchObject({
    code: 'service_unavailable',
    retryAfterSeconds: 3,
  })
  expect(room.heldBytes).toBe(most)
})

test('a body in chunks beyond what is taken gives its room back', async () => {
  const room = roomOf(0)
  const { socket, incoming, outgoing } = await request(chunked)
  const answer = readBody(incoming, outgoing, rooms(room), 'owner', limit)
  socket.write(`${(2 * most).toString(16)}\r\n`)
  socket.write(Buffer.alloc(2 * most))
  expect(await answer).toMatchObject({ code: 'payload_too_large' })
  expect(room.heldBytes).toBe(0)
})

test('who declares a byte too many is refused before any of it comes, who declares as many as may be is not', async () => {
  const room = roomOf(0)
  const over = await request(`Content-Length: ${most + 1}`)
  expect(await readBody(over.incoming, over.outgoing, rooms(room), 'owner', limit)).toMatchObject({
    code: 'payload_too_large',
  })
  const { socket, incoming, outgoing } = await request(`Content-Length: ${most}`)
  socket.write(Buffer.alloc(most))
  expect(bodyOf(await readBody(incoming, outgoing, rooms(room), 'owner', limit)).heldBytes).toBe(most)
})

test.each([
  ['declared', `Content-Length: ${large.length}`, Buffer.alloc(0)],
  ['in chunks', chunked, inChunks],
])('who leaves while it waits for room stands in nobody’s way: %s', async (_, header, sent) => {
  const room = roomOf(60_000)
  await room.take('owner', most)
  const { socket, incoming, outgoing } = await request(header)
  const answer = readBody(incoming, outgoing, rooms(room), 'owner', limit)
  const closed = new Promise((resolve) => incoming.once('close', resolve))
  socket.write(sent)
  while (room.waiting === 0) await new Promise((resolve) => setImmediate(resolve))
  socket.destroy()
  await closed
  expect(isRefusal(await answer)).toBe(true)
  expect([room.waiting, room.heldBytes]).toEqual([0, most])
})

test('who leaves in the middle of a large body, or before it is read, leaves no room taken', async () => {
  const room = roomOf(0)
  const { socket, incoming, outgoing } = await request(`Content-Length: ${large.length}`)
  const answer = readBody(incoming, outgoing, rooms(room), 'owner', limit)
  const closed = new Promise((resolve) => incoming.once('close', resolve))
  socket.write(large.subarray(0, 1_000))
  await once(incoming, 'data')
  expect(room.heldBytes).toBe(large.length)
  socket.destroy()
  expect(await answer).toMatchObject({ code: 'invalid_request' })
  await closed
  expect(await readBody(incoming, outgoing, rooms(room), 'owner', limit)).toMatchObject({ code: 'invalid_request' })
  expect(room.heldBytes).toBe(0)
})

describe('a small body that does not come at once', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
  afterEach(() => void vi.useRealTimers())
  /** Begun by this owner, with so many bytes that have come. */
  async function held(owner: string, into: BodyRooms, bytes: number, header = 'Content-Length: 200000') {
    const { socket, incoming, outgoing } = await request(header)
    const came = arrived(incoming, bytes)
    const answer = readBody(incoming, outgoing, into, owner, limit)
    socket.write(Buffer.alloc(bytes))
    await came
    return { socket, answer }
  }
  const second = (): void => void vi.advanceTimersByTime(1_000)

  test('takes nothing of the room for large ones, so that neither stands before the other, and is counted by what has come', async () => {
    const room = roomOf(0)
    const both = rooms(room)
    await Promise.all([room.take('owner', most), room.take('other', most)])
    const body = await held('owner', both, 50_000)
    const nothing = await held('owner', both, 0)
    expect(both.slow.heldBytes).toBe(0)
    second()
    expect([both.slow.heldBytes >= 50_000, both.slow.heldBytes <= 100_000]).toEqual([true, true])
    body.socket.write(Buffer.alloc(150_000, 'x'))
    expect(bodyOf(await body.answer).bytes.toString('latin1')).toBe('\0'.repeat(50_000) + 'x'.repeat(150_000))
    nothing.socket.destroy()
    expect(isRefusal(await nothing.answer)).toBe(true)
    expect([both.slow.heldBytes, room.heldBytes, vi.getTimerCount()]).toEqual([0, 2 * most, 0])
  })

  test('gives way, where there are too many, as the largest of who holds most; who holds little never does', async () => {
    const both = rooms(roomOf(0), 400_000)
    const little = await held('little', both, 1_000)
    const other = await held('other', both, 60_000)
    const one = await held('many', both, 60_000)
    const largest = await held('many', both, 65_000)
    const more = await held('many', both, 60_000)
    second()
    expect(await largest.answer).toMatchObject({
      code: 'service_unavailable',
      words: expect.stringContaining('too slowly') as string,
      retryAfterSeconds: 3,
    })
    expect(both.slow.heldBytes).toBeLessThanOrEqual(400_000)
    for (const [{ socket, answer }, bytes] of [
      [little, 1_000],
      [other, 60_000],
      [one, 60_000],
      [more, 60_000],
    ] as const) {
      socket.write(Buffer.alloc(200_000 - bytes))
      expect(bodyOf(await answer).bytes).toHaveLength(200_000)
    }
    expect(both.slow.heldBytes).toBe(0)
  })

  test('of unknown length, that waits for room to grow large, is counted meanwhile, and leaves the line when it gives way', async () => {
    const room = roomOf(60_000)
    await room.take('owner', most)
    const both = rooms(room, 100_000)
    const { socket, incoming, outgoing } = await request(chunked)
    const answer = readBody(incoming, outgoing, both, 'owner', limit)
    socket.write(inChunks)
    while (room.waiting === 0) await new Promise((resolve) => setImmediate(resolve))
    expect(both.slow.heldBytes).toBe(0)
    second()
    expect(await answer).toMatchObject({ code: 'service_unavailable' })
    expect([room.waiting, room.heldBytes, both.slow.heldBytes]).toEqual([0, most, 0])
  })

  test('of unknown length, that gives way in the moment in which it is given room, leaves none taken', async () => {
    const room = roomOf(60_000)
    await room.take('owner', most)
    const both = rooms(room, 400_000)
    const { socket, incoming, outgoing } = await request(chunked)
    const answer = readBody(incoming, outgoing, both, 'owner', limit)
    socket.write(inChunks)
    while (room.waiting === 0) await new Promise((resolve) => setImmediate(resolve))
    second()
    room.give('owner', most)
    both.slow.hold({ owner: 'other', giveWay: () => undefined }, 200_000)
    expect(await answer).toMatchObject({ code: 'service_unavailable' })
    await new Promise((resolve) => setImmediate(resolve))
    expect([room.waiting, room.heldBytes, both.slow.heldBytes]).toEqual([0, 0, 200_000])
  })

  test('of unknown length, once it has grown large, is no small one any more', async () => {
    const room = roomOf(60_000)
    await room.take('owner', most)
    const both = rooms(room)
    const { socket, incoming, outgoing } = await request(chunked)
    const answer = readBody(incoming, outgoing, both, 'owner', limit)
    socket.write(inChunks.subarray(0, limits.largeRequestBytes + 1_000))
    while (room.waiting === 0) await new Promise((resolve) => setImmediate(resolve))
    second()
    expect(both.slow.heldBytes).toBeGreaterThan(0)
    room.give('owner', most)
    await expect.poll(() => both.slow.heldBytes).toBe(0)
    second()
    expect([both.slow.heldBytes, room.heldBytes]).toEqual([0, most])
    socket.write(inChunks.subarray(limits.largeRequestBytes + 1_000))
    expect(bodyOf(await answer).bytes.equals(large)).toBe(true)
  })

  test('in pieces of one byte takes no more memory than in one', async () => {
    const both = rooms(roomOf(0))
    const { socket, incoming, outgoing } = await request(chunked)
    const many = 200_000
    const came = arrived(incoming, many)
    const answer = readBody(incoming, outgoing, both, 'owner', limit)
    const before = usedMemory()
    socket.write('1\r\nx\r\n'.repeat(many))
    await came
    // What is collected is given back a moment later, on a busy machine.
    await expect.poll(() => usedMemory() - before).toBeLessThan(4 * many)
    socket.write('0\r\n\r\n')
    expect(bodyOf(await answer).bytes.equals(Buffer.alloc(many, 'x'))).toBe(true)
  })
})

describe('a large body, while others wait for room,', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
  afterEach(() => void vi.useRealTimers())
  const looks = (): void => void vi.advanceTimersByTime(1_000 * limits.slowRequestSeconds)
  const tooSlow = { code: 'service_unavailable', words: expect.stringContaining('too slowly') as string }
  const head = Buffer.from(`${most.toString(16)}\r\n`)

  test.each([
    ['of known length', `Content-Length: ${most}`, Buffer.alloc(1_000)],
    ['in chunks', chunked, Buffer.concat([head, Buffer.alloc(limits.largeRequestBytes + 1)])],
  ])('gives its own to them when it hardly moves, and only then: one %s', async (_, header, begun) => {
    const room = roomOf(60_000)
    const { socket, incoming, outgoing } = await request(header)
    const answer = readBody(incoming, outgoing, rooms(room), 'slow', limit)
    socket.write(begun)
    while (incoming.readableFlowing !== true || room.heldBytes < most) await once(incoming, 'data')
    looks()
    expect(room.heldBytes).toBe(most)
    await room.take('other', most)
    const waiting = room.take('third', most)
    looks()
    expect(await answer).toMatchObject(tooSlow)
    expect(await waiting).toBe(true)
  })

  test('keeps its own as long as it moves, and takes no more than it has declared', async () => {
    const room = roomOf(60_000)
    const { socket, incoming, outgoing } = await request(`Content-Length: ${most - 1}`)
    const answer = readBody(incoming, outgoing, rooms(room), 'owner', limit)
    await room.take('other', most)
    const waiting = room.take('third', most)
    const step = Math.max(limits.slowRequestBytes, limits.largeRequestBytes + 1)
    for (let at = 0; at < 2 * step; at += step) {
      const came = arrived(incoming, step)
      socket.write(Buffer.alloc(step))
      await came
      looks()
      expect([room.heldBytes, room.waiting]).toEqual([2 * most - 1, 1])
    }
    looks()
    expect(await answer).toMatchObject(tooSlow)
    expect(await waiting).toBe(true)
  })

  test('is not slow while it waits itself, unread, for room to grow', async () => {
    const step = limits.chunkedRequestBytes
    const room = new ByteRoom({ bytesMax: 3 * step, shareBytesMax: 2 * step, waitMs: 60_000, waitingMax: 10 })
    await room.take('other', 2 * step)
    const { socket, incoming, outgoing } = await request(chunked)
    const answer = readBody(incoming, outgoing, rooms(room), 'owner', bodyLimit(2 * step, 'Too large.'))
    socket.write(Buffer.concat([Buffer.from(`${(step + 1).toString(16)}\r\n`), Buffer.alloc(step + 1)]))
    while (room.waiting === 0) await new Promise((resolve) => setImmediate(resolve))
    for (let n = 0; n < 3; n++) looks()
    expect([room.heldBytes, room.waiting]).toEqual([3 * step, 1])
    room.give('other', 2 * step)
    socket.write('\r\n0\r\n\r\n')
    expect(bodyOf(await answer).bytes).toHaveLength(step + 1)
  })
})

test.each([
  ['workspace of all who have a key', roomsOfCallers],
  ['address of strangers', roomsOfStrangers],
])('however much one %s sends, there is room left for another', async (_, roomsOf) => {
  const { large } = roomsOf(silentLog)
  const part = limits.largeRequestBytes + 1
  let taken = 0
  while (await Promise.race([large.take('one', part), new Promise((resolve) => setImmediate(resolve, false))])) taken++
  expect(taken).toBeGreaterThan(0)
  expect(await large.take('other', part)).toBe(true)
  large.close()
})

test('a body in chunks takes a step when it grows large, and all that a body may have only when it grows beyond', async () => {
  const step = limits.chunkedRequestBytes
  const room = new ByteRoom({ bytesMax: 4 * step, shareBytesMax: 2 * step, waitMs: 0, waitingMax: 10 })
  await room.take('other', 2 * step)
  const send = async (bytes: number) => {
    const { socket, incoming, outgoing } = await request(chunked)
    const answer = readBody(incoming, outgoing, rooms(room), 'owner', bodyLimit(3 * step, 'Too large.'))
    const content = Buffer.alloc(bytes, 'abcdefg')
    socket.write(Buffer.concat([Buffer.from(`${bytes.toString(16)}\r\n`), content, Buffer.from('\r\n0\r\n\r\n')]))
    return { answer: await answer, content }
  }
  const taken = await send(step)
  expect(bodyOf(taken.answer).bytes.equals(taken.content)).toBe(true)
  expect(room.heldBytes).toBe(3 * step)
  expect((await send(step + 1)).answer).toMatchObject({ code: 'service_unavailable' })
  room.give('owner', step)
  room.give('other', 2 * step)
  const wide = new ByteRoom({ bytesMax: 4 * step, shareBytesMax: 4 * step, waitMs: 0, waitingMax: 10 })
  const { socket, incoming, outgoing } = await request(chunked)
  const content = Buffer.alloc(2 * step, 'abcdefg')
  socket.write(Buffer.concat([Buffer.from(`${(2 * step).toString(16)}\r\n`), content, Buffer.from('\r\n0\r\n\r\n')]))
  const body = bodyOf(await readBody(incoming, outgoing, rooms(wide), 'owner', bodyLimit(3 * step, 'Too large.')))
  expect([body.bytes.equals(content), body.heldBytes, wide.heldBytes]).toEqual([true, 2 * step, 2 * step])
})
