import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodedBody, decodedText, everyEntity, fieldValue, mimeBounds, readMime } from './mime-entity.ts'
import type { MimeEntity } from './mime-entity.ts'
import { effortOf } from '../base/effort.test-kit.ts'

const lines = (...all: string[]): string => all.join('\n')
const read = (text: string | Buffer, bounds = mimeBounds) => readMime(Buffer.from(text as string), bounds)
const endings = [
  ['LF', '\n'],
  ['CRLF', '\r\n'],
  ['CR', '\r'],
] as const

/** What the structure says, without the line ends that differ on purpose. */
function shape(entity: MimeEntity): unknown {
  return {
    fields: entity.fields.map((field) => [field.name, fieldValue(entity, field.name)]),
    type: entity.contentType.value,
    text: entity.parts.length === 0 ? decodedText(entity).replace(/\r\n?/g, '\n') : undefined,
    preamble: entity.preamble.toString().trim(),
    epilogue: entity.epilogue.toString().trim(),
    parts: entity.parts.map(shape),
  }
}

const nested = lines(
  'From MAILER-DAEMON Sat Nov 21 05:00:00 2026',
  'Subject: a',
  ' folded',
  '\tsubject',
  'Content-Type: multipart/mixed;',
  ' boundary="=_outer" (a comment)',
  '',
  'preamble',
  '--=_outer',
  '',
  'first, without a header',
  '',
  '--=_outer  ',
  'Content-Type: Multipart/Alternative; boundary==_inner',
  '',
  '--=_inner',
  'Content-Type: text/plain; charset=iso-8859-1',
  'Content-Transfer-Encoding: Quoted-Printable',
  '',
  'caf=E9 =',
  'au lait  ',
  '--=_inner',
  'Content-Type: text/html',
  '',
  '<p>--=_outer is no delimiter here</p>',
  '--=_inner--',
  'inner epilogue',
  '--=_outer',
  'Content-Type: message/rfc822',
  '',
  'Subject: inside',
  'Content-Type: text/plain',
  '',
  'the message',
  '--=_outer',
  'Content-Type: message/rfc822',
  'Content-Transfer-Encoding: base64',
  '',
  Buffer.from('Subject: hidden\n\nin Base64').toString('base64'),
  '--=_outer--',
  'epilogue',
)

describe('the structure', () => {
  test.each(endings)('is the same with %s', (_, end) => {
    const message = read(nested.replaceAll('\n', end))
    expect(shape(message)).toEqual(shape(read(nested)))
    expect([...everyEntity(message)].map((each) => each.contentType.value)).toEqual([
      'multipart/mixed',
      'text/plain',
      'multipart/alternative',
      'text/plain',
      'text/html',
      'message/rfc822',
      'text/plain',
      'message/rfc822',
      'text/plain',
    ])
    expect([message.exceeded, message.malformed]).toEqual([[], false])
    const [first, alternative, inside, hidden] = message.parts
    expect(fieldValue(message, 'subject')).toBe('a folded\tsubject')
    expect(decodedText(first as MimeEntity)).toBe(`first, without a header${end}`)
    expect(decodedText(alternative?.parts[0] as MimeEntity)).toBe('café au lait')
    expect(alternative?.epilogue.toString()).toBe('inner epilogue')
    expect(fieldValue(inside?.parts[0] as MimeEntity, 'subject')).toBe('inside')
    expect(fieldValue(hidden?.parts[0] as MimeEntity, 'subject')).toBe('hidden')
    expect(decodedText(hidden?.parts[0] as MimeEntity)).toBe('in Base64')
    expect(message.preamble.toString()).toBe('preamble')
    expect(message.epilogue.toString()).toBe('epilogue')
  })

  test('raw fields and bodies are the bytes as they stood', () => {
    const message = read('X-A:  b\r\n\tc \r\nX-B:\r\n\r\nbo\rdy\n')
    expect(message.fields.map(({ raw }) => raw.toString())).toEqual(['X-A:  b\r\n\tc ', 'X-B:'])
    expect(fieldValue(message, 'x-a')).toBe('b\tc')
    expect(fieldValue(message, 'x-b')).toBe('')
    expect(message.body.toString()).toBe('bo\rdy\n')
  })

  test('a header in UTF-8 and one in an old charset both read', () => {
    expect(fieldValue(read('Subject: grün\n\n'), 'subject')).toBe('grün')
    expect(fieldValue(read(Buffer.from('Subject: gr\xfcn\n\n', 'latin1')), 'subject')).toBe('grün')
  })

  test('a missing end boundary gives the parts that are there, and is told', () => {
    const message = read(lines('Content-Type: multipart/mixed; boundary=b', '', '--b', '', 'one', '--b', 'X: y'))
    expect(message.parts.map((part) => [part.fields.length, part.body.toString()])).toEqual([[0, 'one'], [1, '']]) // prettier-ignore
    expect(message.malformed).toBe(true)
  })

  test('an outer delimiter ends everything inside it', () => {
    const message = read(
      lines(
        'Content-Type: multipart/mixed; boundary=a', '', '--a', 'Content-Type: multipart/mixed; boundary=b', '', '--b', '', 'one', '--a', '', 'two', '--a--',
      ), // prettier-ignore
    )
    expect(message.parts.map((part) => part.parts.length)).toEqual([1, 0])
    expect(message.parts[0]?.parts[0]?.body.toString()).toBe('one')
    expect(message.parts[1]?.body.toString()).toBe('two')
  })

  test('a line that is no field begins the body, and is told', () => {
    const message = read('Subject: a\nno field\nX: y\n\nrest')
    expect(message.fields.length).toBe(1)
    expect(message.body.toString()).toBe('no field\nX: y\n\nrest')
    expect(message.malformed).toBe(true)
  })

  test('a part of a digest is a message', () => {
    const message = read(lines('Content-Type: multipart/digest; boundary=b', '', '--b', '', 'Subject: in', '', 'x', '--b--')) // prettier-ignore
    expect(fieldValue(message.parts[0]?.parts[0] as MimeEntity, 'subject')).toBe('in')
  })

  test.each(['', 'text', 'text/', '/', ';', 'multipart/mixed', 'multipart/mixed; boundary=""'])(
    'a content type of %j does not stop the reading',
    (type) => {
      const message = read(`Content-Type: ${type}\n\nbody`)
      expect(message.body.toString()).toBe('body')
      expect(message.parts).toEqual([])
    },
  )

  test.each([
    ['multipart/mixed; boundary=b', false],
    ['Multipart/Mixed (a comment); boundary="b "', false],
    ['multipart/mixed; boundary="bö"', false],
    ['multipart/mixed boundary=b', true],
    ['multipart/mixed and more; boundary=b', true],
    ['multipart / mixed; boundary=b', true],
    ['multipart/; boundary=b', true],
    ['multipart/mixed; boundary=b\nContent-Type: text/plain', true],
  ])('a multipart that some readers open is one, and not a sure one where others do not: %j', (type, malformed) => {
    const boundary = type.includes('ö') ? 'bö' : 'b'
    const message = read(`Content-Type: ${type}\n\n--${boundary}\n\none\n--${boundary}--\n`)
    expect(message.parts.map(({ body }) => body.toString())).toEqual(['one'])
    expect(message.malformed).toBe(malformed)
  })

  test('a boundary in an old charset is read by its octets', () => {
    const message = read(
      Buffer.from('Content-Type: multipart/mixed; boundary="b\xf6"\n\n--b\xf6\n\none\n--b\xf6--\n', 'latin1'),
    )
    expect(message.parts.map(({ body }) => body.toString())).toEqual(['one'])
  })

  test('encoded bodies decode by their own encoding', () => {
    const body = (encoding: string, text: string) =>
      decodedBody(read(`Content-Transfer-Encoding: ${encoding}\n\n${text}`)).toString()
    expect(body('BASE64', 'aGVs\nbG8=')).toBe('hello')
    expect(body('quoted-printable (really)', 'a=3Db')).toBe('a=b')
    expect(body('x-uuencode', 'begin 644 f\n#0V%T\n`\nend\n')).toBe('Cat')
    expect(body('x-unheard-of', 'as it is')).toBe('as it is')
  })
})

describe('what is hostile costs little', () => {
  const quickly = (text: string | Buffer, bounds = mimeBounds) => {
    const bytes = Buffer.from(text as string)
    const effort = effortOf(() => {
      for (const entity of everyEntity(readMime(bytes, bounds))) decodedText(entity)
    })
    // Generous. Anything that is not linear takes minutes.
    expect(effort).toBeLessThan(5_000)
    return readMime(bytes, bounds)
  }
  const megabytes = (unit: string, count = 10): string => unit.repeat(Math.ceil((count * 1024 * 1024) / unit.length))

  test('a body of 10 MB, in one line or in nothing but delimiters of nobody', () => {
    const head = 'Content-Type: multipart/mixed; boundary=b\n\n--b\n\n'
    for (const unit of ['a', '-', '--\n', '--b', '--c\n', '\r', '--b \t\n']) quickly(head + megabytes(unit))
  })

  test('a line of two hyphens, of which there may be millions, costs little more than one of one', () => {
    const least = (unit: string): number => {
      const bytes = Buffer.from(`Content-Type: multipart/mixed; boundary=b\n\n--b\n\n${unit.repeat(2_500_000)}`)
      return Math.min(...[1, 2, 3].map(() => effortOf(() => readMime(bytes))))
    }
    expect(least('--a\n')).toBeLessThan(5 * least('-a\n'))
  })

  test('a header of 10 MB, and 10,000 of them', () => {
    expect(quickly(`X: ${megabytes('a')}\n\nbody`).exceeded).toContain('headerBytes')
    expect(quickly(`X: a\n${megabytes(' a\n')}\nbody`).exceeded).toContain('headerBytes')
    const many = quickly(`${'X: y\n'.repeat(50_000)}\nbody`)
    expect(many.exceeded).toContain('fields')
    expect(many.body.toString()).toBe('body')
    expect(many.fields.length).toBe(mimeBounds.fields)
  })

  test('10,000 parts', () => {
    const message = quickly(`Content-Type: multipart/mixed; boundary=b\n\n${'--b\n\nx\n'.repeat(10_000)}--b--\n`)
    expect(message.exceeded).toEqual(['parts'])
    expect(message.parts.length).toBe(mimeBounds.parts - 1)
  })

  test('a depth of 200, and of 20,000', () => {
    const deep = (levels: number): string =>
      Array.from({ length: levels }, (_, at) => `Content-Type: multipart/mixed; boundary=b${at}\n\n--b${at}\n`).join('')
    expect(quickly(deep(50)).exceeded).toEqual([])
    for (const levels of [200, 20_000]) expect(quickly(deep(levels)).exceeded).toEqual(['depth'])
    expect(quickly('Content-Type: message/rfc822\n\n'.repeat(200)).exceeded).toEqual(['depth'])
    expect(quickly(`${deep(1)}${'Content-Type: multipart/mixed; boundary=b0\n\n--b0\n'.repeat(5_000)}`).exceeded).toContain('depth') // prettier-ignore
  })

  test('messages encoded in messages', () => {
    let text = `Subject: innermost\n\n${'x'.repeat(1_000_000)}`
    const head = 'Content-Type: message/rfc822\nContent-Transfer-Encoding: quoted-printable\n\n'
    for (let level = 0; level < 20; level++) text = `${head}${text.replaceAll('=', '=3D')}`
    expect(quickly(text, { ...mimeBounds, decodedBytes: 4_000_000 }).exceeded).toEqual(['decodedBytes'])
    expect(fieldValue([...everyEntity(quickly(text))].at(-1) as MimeEntity, 'subject')).toBe('innermost')
  })

  test('cut anywhere, it reads', () => {
    const bytes = Buffer.from(nested.replaceAll('\n', '\r\n'))
    for (let end = 0; end <= bytes.length; end++)
      for (const entity of everyEntity(readMime(bytes.subarray(0, end)))) decodedText(entity)
    expect(readMime(bytes.subarray(0, 0))).toMatchObject({ fields: [], parts: [] })
  })
})

test('whatever the bytes are, every octet is in a field, a body or a delimiter, and nothing throws', () => {
  const piece = fc.constantFrom(
    'Content-Type: multipart/mixed; boundary=b\n', 'Content-Type: message/rfc822\r\n', 'Content-Type: text/plain; boundary="b\n',
    'Content-Transfer-Encoding: base64\n', '--b\r\n', '--b--\r', '\n', '\r\n', '\r', ' folded\n', 'X: y\n', 'text', '--', '\0', '=', 'é',
  ) // prettier-ignore
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, fc.string({ unit: 'binary' }))), (pieces) => {
      const bytes = Buffer.from(pieces.join(''))
      for (const entity of everyEntity(readMime(bytes))) {
        expect(decodedBody(entity).length).toBeLessThanOrEqual(entity.body.length + 3)
        expect(typeof decodedText(entity)).toBe('string')
        for (const field of entity.fields) expect(typeof fieldValue(entity, field.name)).toBe('string')
      }
    }),
    { numRuns: 1_000 },
  )
})
