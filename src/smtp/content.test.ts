import * as fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { ChunkReader, Content, DataReader } from './content.ts'
import { ContentRoom } from './content-room.ts'

const plenty = 1_000_000

/** Feeds copies of the pieces, since the reader works in place. */
function readData(pieces: readonly Buffer[], bytesMax = plenty) {
  const reader = new DataReader(new Content(bytesMax, new ContentRoom({ bytesMax: plenty })))
  let rest = ''
  let ended = false
  for (const piece of pieces) {
    const copy = Buffer.from(piece)
    const end: number = ended ? 0 : reader.read(copy, 0)
    ended ||= end >= 0
    if (ended) rest += copy.toString('latin1', end)
  }
  const { content } = reader
  return { ended, rest, trouble: content.trouble, text: content.whole().toString('latin1') }
}

/** The whole of RFC 5321 4.5.2 once more, slowly and by other means. */
function readSlowly(text: string) {
  const found = `\r\n${text}`.indexOf('\r\n.\r\n')
  const ended = found >= 0
  const stuffed = ended ? text.slice(0, found) : text
  return {
    ended,
    rest: ended ? text.slice(found + 3) : '',
    trouble: /\r(?!\n)|(?<!\r)\n/.test(stuffed) ? 'bareLineEnds' : undefined,
    text: `\r\n${stuffed}`.replaceAll('\r\n.', '\r\n').slice(2),
  }
}

const hard = fc
  .array(fc.constantFrom('\r', '\n', '\r\n', '.', '..', '\r\n.', '\r\n.\r', 'a', 'text', '\0', 'é'), { maxLength: 40 })
  .map((parts) => parts.join(''))

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const edges = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return edges.slice(1).map((edge, at) => bytes.subarray(edges[at], edge))
}

describe('DATA', () => {
  test.each([
    ['an empty message', '.\r\n', '', undefined, ''],
    ['stuffed dots', '..\r\n...x\r\n.\r\n', '.\r\n..x\r\n', undefined, ''],
    ['a stuffed dot by a client that did not double it', '.x\r\n.\r\n', 'x\r\n', undefined, ''],
    ['commands behind the end', 'a\r\n.\r\nMAIL', 'a\r\n', undefined, 'MAIL'],
    ['a bare LF', 'a\nb\r\n.\r\n', '', 'bareLineEnds', ''],
    ['a bare CR', 'a\rb\r\n.\r\n', '', 'bareLineEnds', ''],
    ['CR CR LF', 'a\r\r\n.\r\n', '', 'bareLineEnds', ''],
    ['a dot, CR and no LF', '.\rx\r\n.\r\n', '', 'bareLineEnds', ''],
  ])('%s', (_, input, text, trouble, rest) => {
    expect(readData([Buffer.from(input)])).toEqual({ ended: true, rest, trouble, text })
  })

  test('agrees with a slow reader that is plainly right, wherever the input is cut', () => {
    fc.assert(
      fc.property(hard, fc.array(fc.nat(), { maxLength: 10 }), (input, places) => {
        const bytes = Buffer.from(`${input}\r\n.\r\nNOOP\r\n`)
        const fast = readData(cut(bytes, places))
        const slow = readSlowly(bytes.toString('latin1'))
        expect(fast).toEqual(slow.trouble === undefined ? slow : { ...slow, text: '' })
      }),
      { numRuns: 2_000 },
    )
  })

  test('too large is found at the byte, and the message is read to its end', () => {
    const input = [Buffer.from('12345678\r\n'), Buffer.from('.\r\nNOOP')]
    expect(readData(input, 10)).toMatchObject({ trouble: undefined, text: '12345678\r\n' })
    expect(readData(input, 9)).toMatchObject({ trouble: 'tooLarge', text: '', ended: true, rest: 'NOOP' })
  })
})

describe('BDAT', () => {
  test('agrees with a slow reader, wherever the chunks are cut, and ends the last line', () => {
    fc.assert(
      fc.property(hard, fc.array(fc.nat(), { maxLength: 10 }), (input, places) => {
        const content = new Content(plenty, new ContentRoom({ bytesMax: plenty }))
        const reader = new ChunkReader(content)
        for (const piece of cut(Buffer.from(input), places)) reader.read(piece)
        reader.end()
        const isClean = !/\r(?!\n)|(?<!\r)\n/.test(input)
        expect(content.trouble).toBe(isClean ? undefined : 'bareLineEnds')
        const whole = input === '' || input.endsWith('\n') ? input : `${input}\r\n`
        if (isClean) expect(content.whole().toString()).toBe(whole)
      }),
    )
  })
})

describe('memory', () => {
  test('a message of one-byte packets is kept in blocks', () => {
    const content = new Content(plenty, new ContentRoom({ bytesMax: plenty }))
    for (let at = 0; at < 50_000; at++) content.keep(Buffer.of(97 + (at % 26)))
    const pieces = content.pieces()
    expect(pieces.length).toBeLessThan(20)
    const whole = Buffer.concat(pieces)
    expect(whole.length).toBe(50_000)
    expect(whole.every((byte, at) => byte === 97 + (at % 26))).toBe(true)
  })

  // Some are gathered, some kept as they came, and large ones go into other blocks.
  test('pieces of any size, in any order, are the message as it came', () => {
    const size = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 4_000, max: 70_000 }))
    fc.assert(
      fc.property(fc.array(fc.record({ size, isSmallPart: fc.boolean() }), { maxLength: 12 }), (parts) => {
        const content = new Content(plenty, new ContentRoom({ bytesMax: plenty }))
        const pieces = parts.map(({ size, isSmallPart }, at) =>
          Buffer.alloc(isSmallPart ? 3 * size : size, at).subarray(0, size),
        )
        for (const piece of pieces) content.keep(piece)
        expect(content.whole().equals(Buffer.concat(pieces))).toBe(true)
      }),
    )
  })

  test('a message in small parts of what is read each time does not hold the rest of that', () => {
    const content = new Content(plenty, new ContentRoom({ bytesMax: plenty }))
    for (let at = 0; at < 15; at++) content.keep(Buffer.alloc(64 * 1024, 'x').subarray(0, 4_096))
    const held = new Set(content.pieces().map(({ buffer }) => buffer))
    expect([...held].reduce((sum, { byteLength }) => sum + byteLength, 0)).toBeLessThanOrEqual(16 * 4_096)
  })

  test('a large message is kept in large blocks, and in one when it is complete, so that all of it goes back at once', () => {
    const content = new Content(16 * 1024 * 1024, new ContentRoom({ bytesMax: 16 * 1024 * 1024 }))
    const packet = (at: number) => Buffer.alloc(16 * 1024, 97 + (at % 26))
    for (let at = 0; at < 512; at++) content.keep(packet(at))
    expect(content.pieces().length).toBeLessThan(20)
    expect(content.whole().equals(Buffer.concat(Array.from({ length: 512 }, (_, at) => packet(at))))).toBe(true)
    expect(content.pieces().map((piece) => piece === content.whole())).toEqual([true])
  })

  test('what gives way is let go at once, and not when the collector comes', () => {
    const mebibyte = 1024 * 1024
    const content = new Content(plenty * mebibyte, new ContentRoom({ bytesMax: 3 * mebibyte }))
    for (let at = 0; at < 40; at++) content.keep(Buffer.alloc(64 * 1024))
    const blocks = content.pieces().filter(({ length }) => length === mebibyte)
    for (let at = 0; at < 40; at++) content.keep(Buffer.alloc(64 * 1024))
    expect([content.trouble, blocks.length]).toEqual(['noRoom', 2])
    expect(blocks.map(({ byteLength }) => byteLength)).toEqual([0, 0])
  })

  test('where the machine has less left than the room is large, that is all the room there is', () => {
    let left = 30
    let told = 0
    const room = new ContentRoom({ bytesMax: 100, bytesNow: () => left, lacked: () => told++ })
    expect([room.take(20), room.take(20), told]).toEqual([true, false, 1])
    left = 1_000
    expect([room.take(80), room.take(1), told]).toEqual([true, false, 1])
    const shared = new ContentRoom({ bytesMax: 100, bytesNow: () => left, shareBytesMax: 80 })
    expect([shared.take(80, 'one'), shared.take(20, 'other'), shared.take(1, 'other')]).toEqual([true, true, false])
    const grows = new ContentRoom({ bytesMax: 100, bytesNow: (held) => 10 + held })
    expect([grows.take(10), grows.take(10), grows.take(11)]).toEqual([true, true, false])
  })

  test('the room that all share is taken, refused beyond its end, and given back', () => {
    const room = new ContentRoom({ bytesMax: 100 })
    const first = new Content(plenty, room)
    first.keep(Buffer.alloc(60))
    const second = new Content(plenty, room)
    second.keep(Buffer.alloc(40))
    second.keep(Buffer.alloc(1))
    expect(second.trouble).toBe('noRoom')
    const third = new Content(plenty, room)
    third.keep(Buffer.alloc(40))
    expect(third.trouble).toBeUndefined()
    first.release()
    first.release()
    third.release()
    expect(room.take(100)).toBe(true)
    // Another owner's share is free: what was given back twice would be room twice.
    expect(room.take(1, 'another')).toBe(false)
  })

  test('what the system has no memory for has no room, and holds none', () => {
    const room = new ContentRoom({ bytesMax: plenty })
    const content = new Content(plenty, room)
    const alloc = vi.spyOn(Buffer, 'allocUnsafeSlow').mockImplementation(() => {
      throw Object.assign(new RangeError('Failed to allocate memory'), { code: 'ERR_MEMORY_ALLOCATION_FAILED' })
    })
    try {
      for (let at = 0; at < 3; at++) content.keep(Buffer.alloc(100_000))
    } finally {
      alloc.mockRestore()
    }
    expect([content.trouble, content.heldBytes, room.take(plenty)]).toEqual(['noRoom', 0, true])
  })

  test.each([
    ['too large', 10, Buffer.alloc(1)],
    ['spoiled', plenty, Buffer.from('\n')],
  ])('a message that is %s holds no room while the rest of it comes', (_, bytesMax, more) => {
    const room = new ContentRoom({ bytesMax: 10 })
    const reader = new DataReader(new Content(bytesMax, room))
    // The first piece is kept as it is, the second gathered.
    for (const bytes of [6, 4]) reader.read(Buffer.alloc(bytes, 'x'), 0)
    expect(room.take(1)).toBe(false)
    reader.read(more, 0)
    expect([room.take(10), reader.content.pieces()]).toEqual([true, []])
  })

  test('of the room nobody takes more than their share, and the rest stays for others', () => {
    const room = new ContentRoom({ bytesMax: 100, shareBytesMax: 60 })
    const contents = ['one', 'one', 'two'].map((owner) => new Content(plenty, room, owner))
    for (const [at, bytes] of [60, 1, 40].entries()) contents[at]?.keep(Buffer.alloc(bytes))
    expect(contents.map(({ trouble }) => trouble)).toEqual([undefined, 'noRoom', undefined])
    contents[0]?.release()
    expect(room.take(60, 'one')).toBe(true)
  })

  test('large messages do not end each other, nor does anybody beyond a share end another; a small one finds room', () => {
    const room = new ContentRoom({ bytesMax: 100, shareBytesMax: 60, smallBytesMax: 10 })
    const make = (owner: string) => new Content(plenty, room, owner)
    const [first, second, large] = [make('one'), make('two'), make('three')]
    const [beyond, small] = [make('one'), make('three')]
    first.keep(Buffer.alloc(60))
    second.keep(Buffer.alloc(40))
    large.keep(Buffer.alloc(11))
    beyond.keep(Buffer.alloc(1))
    expect([first, second].map((each) => each.trouble)).toEqual([undefined, undefined])
    expect([large, beyond].map((each) => each.trouble)).toEqual(['noRoom', 'noRoom'])
    small.keep(Buffer.alloc(10))
    expect([first, second, small].map((each) => each.trouble)).toEqual(['noRoom', undefined, undefined])
  })

  test('in room that yields the message under way that holds most gives way, to any that holds less, and one that is complete to none', () => {
    const room = new ContentRoom({ bytesMax: 100, smallBytesMax: 100 })
    const make = () => new Content(plenty, room)
    const [complete, large, small, last, none] = [make(), make(), make(), make(), make()]
    complete.keep(Buffer.alloc(50))
    complete.whole()
    large.keep(Buffer.alloc(40))
    small.keep(Buffer.alloc(10))
    last.keep(Buffer.alloc(30))
    expect([complete, large, small, last].map((each) => each.trouble)).toEqual([
      undefined,
      'noRoom',
      undefined,
      undefined,
    ])
    none.keep(Buffer.alloc(30))
    expect([small, last, none].map((each) => each.trouble)).toEqual([undefined, undefined, 'noRoom'])
    for (const content of [complete, large, small, last, none]) content.release()
    expect(room.take(100)).toBe(true)
  })
})
