// What is found wherever it is hidden, what is refused because it cannot be examined, and that neither costs much (attacks Q8, Q9, I12).
import { randomBytes } from 'node:crypto'
import { constants, deflateRawSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { nestedZip, overlappingZip, tarOf, zipOf, zipped } from '../../test/world/archives.ts'
import { eicar } from '../../test/world/clamd.ts'
import { limits } from '../config.ts'
import { examine, type Findings } from './examine.ts'

const look = (bytes: Buffer, filename = 'a.bin', contentType = 'application/octet-stream', ms = Infinity): Findings =>
  examine({ files: [{ filename, contentType, bytes: new Uint8Array(bytes) }], wantsLeaves: false, ms })
const infected = { kind: 'infected', position: 0, signature: 'Eicar-Test-Signature' }
const clean = { kind: 'clean', opaque: [], leaves: [] }

const part = (encoding: string, body: string | Buffer, more = ''): string =>
  `Content-Type: application/octet-stream\r\n${more}Content-Transfer-Encoding: ${encoding}\r\n\r\n${body.toString('latin1')}\r\n`
const mail = (...parts: string[]): Buffer =>
  Buffer.from(
    `From: a@b.example\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="xx"\r\n\r\npreamble\r\n${parts.map((each) => `--xx\r\n${each}`).join('')}--xx--\r\n`,
    'latin1',
  )
const wrapped = (bytes: Buffer): string => bytes.toString('base64').replace(/.{76}/g, '$&\r\n')
const quoted = (bytes: Buffer): string =>
  [...bytes]
    .map((byte, n) => `=${byte.toString(16).toUpperCase().padStart(2, '0')}${n % 20 === 19 ? '=\r\n' : ''}`)
    .join('')
/** As `uuencode` writes it. */
function uuencoded(bytes: Buffer): string {
  const char = (value: number): string => String.fromCharCode(value === 0 ? 0x60 : value + 0x20)
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += 45) {
    const line = bytes.subarray(at, at + 45)
    let text = char(line.length)
    for (let n = 0; n < line.length; n += 3) {
      const three = ((line[n] ?? 0) << 16) | ((line[n + 1] ?? 0) << 8) | (line[n + 2] ?? 0)
      for (const shift of [18, 12, 6, 0]) text += char((three >> shift) & 63)
    }
    lines.push(text)
  }
  return `begin 644 e.com\r\n${lines.join('\r\n')}\r\n\`\r\nend\r\n`
}
/** As `uuencode -m` writes it. */
const beginBase64 = (text: string): string => `begin-base64 644 e.com\r\n${text}\r\n====\r\n`
/** A mail that is one text. */
const root = (encoding: string, body: string): Buffer =>
  Buffer.from(`From: a@b.example\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${body}`, 'latin1')
/** Its Base64 holds both letters that other alphabets write otherwise. */
const wordy = Buffer.concat([Buffer.from('fbefbeffff', 'hex'), eicar])
const packed = gzipSync(eicar) // not to be seen but by unpacking
const zeroed = Buffer.concat([gzipSync('clean'), Buffer.alloc(200), packed])

describe('found', () => {
  const hidden: [string, Buffer][] = [
    ['plain', eicar],
    ['in the middle', Buffer.concat([randomBytes(5_000), eicar, randomBytes(5_000)])],
    ['zipped', zipped(eicar)],
    ['zipped twice', nestedZip(eicar, 2)],
    ['zipped five times', nestedZip(eicar, 5)],
    [
      'behind a clean file in a zip',
      zipOf([
        { name: 'a', content: Buffer.from('a') },
        { name: 'b', content: eicar },
      ]),
    ],
    ['stored in a zip', zipOf([{ name: 'a', content: packed, stored: true }])],
    ['in a zip behind a program', Buffer.concat([randomBytes(1_000), zipped(eicar)])],
    ['in a zip without its list', zipped(eicar).subarray(0, -78)],
    [
      'in a zip that lists nothing',
      zipOf([{ name: 'a', content: eicar }], ({ list }) => void list.splice(0)).subarray(0, -22),
    ],
    ['gzip', packed],
    ['gzip with a name', Buffer.concat([Buffer.from('1f8b080800000000000361626300', 'hex'), packed.subarray(10)])],
    ['second member of a gzip file', Buffer.concat([gzipSync('clean'), packed])],
    ['tar', tarOf('e.com', packed)],
    ['tar.gz', gzipSync(tarOf('e.com', eicar))],
    ['tar.gz in a zip', zipped(gzipSync(tarOf('e.gz', packed)))],
    ['gzip that is cut', gzipSync(Buffer.concat([eicar, randomBytes(50_000)])).subarray(0, -20_000)],
    ['gzip, padding, gzip', Buffer.concat([gzipSync('clean'), Buffer.alloc(20), packed])],
    [
      'tar, no header, tar',
      Buffer.concat([tarOf('a', Buffer.from('a')).subarray(0, 1_024), Buffer.alloc(512, 'x'), tarOf('b', packed)]),
    ],
    ['tar, its checksum counted with signed bytes', signedTar()],
    ['tar, a file that is smaller than its header says', tarOfTwoSizes()],
    ['a zip, whose header alone says that it is encrypted', lyingHeader(false, 6, 1)],
    ['a zip, whose header alone says that it is packed otherwise', lyingHeader(false, 8, 12)],
    ['a zip, whose header alone says that it is stored', lyingHeader(false, 8, 0)],
    ['a zip, whose header alone says that it is deflated', lyingHeader(true, 8, 8)],
    ['stored in a zip, whose header alone says that it is encrypted', lyingHeader(true, 6, 1)],
    ['stored in a zip, whose header alone says a size', lyingHeader(true, 18, 10)],
    ['a zip with two lists, of which the last says that it is stored', twoLists()],
    ['stored in a zip, whose header leaves the size to the list', storedWithoutSize()],
    ['stored in a zip without its list, its sizes in the form of ZIP64', wideStored()],
    ['behind a header that the search jumps over, but the list names', jumpedOver()],
    ['the same, the last list names nothing, and Java takes the one before', jumpedOver(emptyList)],
    ['the same behind a program', Buffer.concat([Buffer.alloc(99), jumpedOver(emptyList)])],
    ['the same, stored in another', zipOf([{ name: 'a', content: jumpedOver(emptyList), stored: true }])],
    ['the same, its list counts from the first byte, which is not its own', shifted()],
    [
      'behind such a header, in an archive behind a program whose list contradicts it',
      doubtful((archive) => archive.indexOf('PK\u0001\u0002') - 31, 28),
    ],
    ['the same, and what jumps over it has its beginning', doubtful(() => 50, 18)],
    ['gzip with all the fields that a header may have', gzipWithFields()],
    ['tar, whose first block is no header', Buffer.concat([Buffer.alloc(512, 'x'), tarOf('e.gz', packed)])],
    [
      'tar, its size in a record of pax alone',
      Buffer.concat([tarEntry('x', Buffer.from(`13 size=0${packed.length}\n`)), tarEntry('0', packed, 0)]),
    ],
    [
      'tar, behind a link with a size, which has content to some programs',
      Buffer.concat([tarEntry('2', Buffer.alloc(0), 512), tarEntry('0', packed)]),
    ],
    ['tar, behind a file that fills no block', tarBehind(Buffer.alloc(700, 'x'))],
    ['tar, its size in base 256', wideTar()],
    ['tar that is cut', tarOf('e', Buffer.concat([packed, Buffer.alloc(5_000)])).subarray(0, 1_024)],
    ['Base64 in a text', Buffer.from(`Look:\n\n${wrapped(packed)}\n`)],
    ['a mail, Base64', mail(part('base64', wrapped(packed)))],
    ['a mail, quoted-printable', mail(part('quoted-printable', quoted(packed)))],
    [
      'a mail, quoted-printable, whose soft breaks stand in the codes',
      mail(part('quoted-printable', quoted(packed).replaceAll('=\r\n', '').replace(/.{7}/g, '$&=\r\n'))),
    ],
    ['a mail, binary', mail(part('binary', packed))],
    [
      'a mail, unencoded, and nobody says so',
      mail(`Content-Type: application/gzip\r\n\r\n${packed.toString('latin1')}\r\n`),
    ],
    ['a mail, a tar, unencoded, and nobody says so', mail(`\r\n${posixTar().toString('latin1')}\r\n`)],
    [
      'a mail, unencoded, behind a line that ends the header for some',
      mail(`X-A: a\r\n\r${packed.toString('latin1')}`),
    ],
    [
      'the same behind eleven others, and in each the last one',
      mail(
        ...Array.from({ length: 12 }, (_, n) => `\r\n${(n < 11 ? gzipSync(`${n}`) : packed).toString('latin1')}\r\n`),
      ),
    ],
    [
      'quoted-printable, behind a header whose line ends differ, in a message that says it is Base64',
      Buffer.from(
        `Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n${root('quoted-printable', quoted(packed)).toString('latin1').replace('\r\n\r\n', '\r\n\r')}`,
      ),
    ],
    [
      'quoted-printable, behind an empty line that is two to some',
      Buffer.from(root('quoted-printable', quoted(packed)).toString('latin1').replace('\r\n\r\n', '\r\n\r\r\n')),
    ],
    [
      'junk among the Base64, without an empty line, behind a field without a name',
      mail(part('base64', junk(wrapped(packed))).replace('\r\n\r\n', '\r\n: empty\r\n')),
    ],
    ['unencoded in a mail that is quoted-printable', root('quoted-printable', quoted(mail(part('8bit', packed))))],
    ['a mail, uuencoded', mail(part('x-uuencode', uuencoded(packed)))],
    ['uuencoded, in quoted-printable codes', root('quoted-printable', quoted(Buffer.from(uuencoded(packed))))],
    [
      'uuencoded, a soft break in its first word',
      root('quoted-printable', `be=\r\n${uuencoded(packed).slice(2).replaceAll('=', '=3D')}`),
    ],
    [
      'uuencoded, behind a NUL in quoted-printable',
      root('quoted-printable', `=00\r\n${uuencoded(packed).replaceAll('=', '=3D')}`),
    ],
    [
      'uuencoded, behind what looks like a boundary and is none',
      root('quoted-printable', `boundary=x\r\n--x\r\n${quoted(Buffer.from(uuencoded(packed)))}`),
    ],
    [
      'the same, and a fold without a word in the header',
      Buffer.from(
        root('quoted-printable', `boundary=x\r\n--x\r\n${quoted(Buffer.from(uuencoded(packed)))}`)
          .toString('latin1')
          .replace('\r\n', '\r\n \r\n'),
      ),
    ],
    ['begin-base64', root('7bit', beginBase64(wrapped(packed)))],
    ['begin-base64, blanks among it', root('7bit', beginBase64(wrapped(packed).replace(/(.{10})/g, '$1 ')))],
    [
      'begin-base64 in quoted-printable, blanks among it',
      root('quoted-printable', quoted(Buffer.from(beginBase64(wrapped(packed).replace(/(.{10})/g, '$1 '))))),
    ],
    ['uuencoded in a text', Buffer.from(`Hello,\r\n\r\n${uuencoded(packed)}`)],
    [
      'a mail in a mail',
      mail(`Content-Type: message/rfc822\r\n\r\n${mail(part('base64', wrapped(packed))).toString('latin1')}`),
    ],
    ['a mail in Base64 in a mail', mail(part('base64', wrapped(mail(part('base64', wrapped(packed))))))],
    [
      'a mail in Base64 in a mail, a NUL in its header',
      mail(part('base64', wrapped(Buffer.concat([Buffer.from('X-A: \0\r\n'), mail(part('base64', wrapped(packed)))])))),
    ],
    [
      'a mail in a zip in a mail',
      mail(part('base64', wrapped(zipped(mail(part('base64', wrapped(packed))), 'm.eml')))),
    ],
    ['a mail, zipped twice', mail(part('base64', wrapped(nestedZip(eicar, 2))))],
    ['before the first boundary', Buffer.from(mail().toString('latin1').replace('preamble', wrapped(packed)))],
    ['behind the last boundary', Buffer.concat([mail(), Buffer.from(part('base64', wrapped(packed)))])],
    [
      'a boundary that is not declared',
      Buffer.from(
        mail(part('base64', wrapped(packed)))
          .toString('latin1')
          .replace('"xx"', '"yy"'),
      ),
    ],
    ['two encodings, the first is right', mail(part('base64', wrapped(packed), 'Content-Transfer-Encoding: 7bit\r\n'))],
    ['two encodings, the last is wrong', mail(part('7bit', wrapped(packed), 'Content-Transfer-Encoding: base64\r\n'))],
    ['an encoding with a comment, folded', mail(part('\r\n\t(so) BASE64', wrapped(packed)))],
    [
      'an encoding behind a comment that holds another one’s word',
      mail(part('(7bit) quoted-printable', quoted(packed))),
    ],
    [
      'an encoding behind a comment longer than what is looked at',
      mail(part(`(${'x'.repeat(900)}\r\n ${'x'.repeat(900)}) quoted-printable`, quoted(packed))),
    ],
    ...[
      '=?us-ascii?Q?base=36=34?=',
      'ba(x)se64',
      '"base\\64"',
      'base 64',
      '(quoted-printable) ba(x)se64',
      'base64 quo(x)ted-printable',
    ].flatMap((word): [string, Buffer][] => [
      [`junk among the Base64, whose encoding is written ${word}`, mail(part(word, junk(wrapped(packed))))],
      [`quoted-printable, written ${word}`, mail(part(word, quoted(packed)))],
    ]),
    ['Base64 across what looks like a boundary, and is declared where none is', decoyBoundary('--:::')],
    [
      'Base64 across what begins as the boundary does',
      Buffer.from(decoyBoundary('--:::.').toString('latin1').replace('"xx"', '":::"').replaceAll('--xx', '--:::')),
    ],
    [
      'Base64 across such a line, in a header with a line that is no field',
      Buffer.from(decoyBoundary('--:::').toString('latin1').replace('base64\r\n', 'base64\r\nno field\r\n')),
    ],
    [
      'junk among the Base64, behind a header with a fold of blanks',
      mail(part('base64', junk(wrapped(packed))).replace('\r\n\r\n', '\r\nX-A: a\r\n \r\nX-B: abc\r\n\r\n')),
    ],
    [
      'junk among the Base64, without an empty line before it',
      mail(part('base64', junk(wrapped(packed))).replace('\r\n\r\n', '\r\n!')),
    ],
    ['junk among the Base64', mail(part('base64', wrapped(packed).replace(/(.{10})/g, '$1!*')))],
    ['padding among the Base64', mail(part('base64', `QQ==\r\n${wrapped(zipped(eicar))}`))],
    ['padding that completes nothing among the Base64', mail(part('base64', wrapped(packed).replace('H4', 'H=4=')))],
    ['the same without a header', Buffer.from(`Look:\n\n${wrapped(packed).replace('H4', 'H=4=')}\n`)],
    ['Base64 in the alphabet for URLs', mail(part('base64', zipped(wordy).toString('base64url')))],
    ['uuencoded, without a name', mail(part('x-uuencode', uuencoded(packed).replace('begin 644 e.com', 'begin 644')))],
    ['uuencoded, its mode as some write it', mail(part('x-uuencode', uuencoded(packed).replace('644', '0o644')))],
    ['uuencoded, behind an empty line of it', mail(part('x-uuencode', uuencoded(packed).replace('\r\n', '\r\n`\r\n')))],
    [
      'uuencoded, an empty line behind each',
      mail(part('x-uuencode', uuencoded(packed).replaceAll('\r\n', '\r\n\r\n'))),
    ],
    [
      'uuencoded, blanks lost at the ends of its lines',
      mail(
        part(
          'x-uuencode',
          uuencoded(zeroed)
            .replaceAll('`', ' ')
            .replaceAll(/ +\r\n/g, '\r\n'),
        ),
      ),
    ],
    ['quoted lines', Buffer.from(`> ${wrapped(packed).replaceAll('\r\n', '\r\n> ')}\r\n`)],
    [
      'line feeds alone',
      Buffer.from(
        mail(part('base64', wrapped(packed)))
          .toString('latin1')
          .replaceAll('\r\n', '\n'),
      ),
    ],
  ]
  test.each(hidden)('%s', (_, bytes) => expect(look(bytes)).toEqual(infected))

  const veiled = Buffer.concat([Buffer.alloc(1), mail(part('base64', wrapped(packed)))])
  test.each([
    ['its type', veiled, 'a.bin', 'Message/RFC822'],
    ['its name', veiled, 'a.EML', 'application/octet-stream'],
    ['its name in an archive', zipped(veiled, 'a.eml'), 'a.zip', 'application/zip'],
  ])('in what does not look like a mail, and is one by %s', (_, bytes, filename, contentType) => {
    expect(look(bytes, filename, contentType)).toEqual(infected)
  })

  test('in the file that has it, by its position', () => {
    const file = (bytes: Buffer) => ({ filename: 'a', contentType: 'text/plain', bytes: new Uint8Array(bytes) })
    const files = [file(Buffer.from('clean')), file(zipped(eicar))]
    expect(examine({ files, wantsLeaves: false, ms: Infinity })).toEqual({ ...infected, position: 1 })
  })
})

describe('clean', () => {
  const files: [string, Buffer][] = [
    ['nothing', Buffer.alloc(0)],
    ['one byte', Buffer.from('P')],
    ['an empty zip', zipOf([])],
    [
      'a zip of many files',
      zipOf(Array.from({ length: 3_000 }, (_, n) => ({ name: `${n}`, content: Buffer.from(`${n}`) }))),
    ],
    ['a well packed table', zipped(Buffer.from('2026-11-21;shop@example.org;12.50;EUR\n'.repeat(300_000)))],
    ['20 MiB of noise', randomBytes(20 * 1024 * 1024)],
    ['a zip of 6,000 files, stored in another', zipOf([{ name: 'a.zip', content: manyFiles(6_000), stored: true }])],
    ['two lists of one archive, none of which hides a thing', Buffer.concat([manyFiles(3), manyFiles(3)])],
    ['an archive in the form of ZIP64', wideZip()],
    ['two lists, of which the first counts from before the first byte', countedFromBefore()],
    [
      'headers of a zip in a text',
      Buffer.concat([Buffer.from('The end is PK\u0005\u0006, the list '), Buffer.alloc(40, 'x')]),
    ],
    ['a cut zip', zipped(randomBytes(1_000)).subarray(0, 300)],
    [
      'gzip in Base64 that was padded piece by piece',
      mail(
        part(
          'base64',
          gzipSync(randomBytes(5_000).toString('hex'))
            .toString('latin1')
            .replace(/[^]{1,100}/g, (piece) => `${Buffer.from(piece, 'latin1').toString('base64')}\r\n`),
        ),
      ),
    ],
    ['a mail', mail(part('base64', wrapped(randomBytes(10_000))), part('8bit', 'Grüße'))],
    [
      'hashes, one a line',
      Buffer.from(Array.from({ length: 1_000 }, () => randomBytes(32).toString('hex')).join('\n')),
    ],
  ]
  test.each(files)('%s', (_, bytes) => expect(look(bytes)).toEqual(clean))

  test('an encrypted archive is let through, and that it could not be looked into is told (decision 0017)', () => {
    const bytes = zipOf([{ name: 'payslip.pdf', content: randomBytes(100), encrypted: true }])
    expect(look(bytes)).toEqual({ ...clean, opaque: ['encrypted'] })
  })
})

test('so is a packing that nobody here knows, and that it could not be looked into is told', () => {
  const bytes = zipOf([{ name: 'a.pdf', content: Buffer.alloc(100, 'x'), stored: true }])
  for (const at of [8, bytes.indexOf('PK\u0001\u0002', 0, 'latin1') + 10]) bytes.writeUInt16LE(12, at)
  expect(look(bytes)).toEqual({ ...clean, opaque: ['method'] })
})

describe('refused, because it cannot be examined within the limits', () => {
  const zeros = Buffer.alloc(50_000_000)
  const wide = Buffer.alloc(4)
  const bombs: [string, () => Buffer, RegExp][] = [
    ['a bomb like 42.zip', () => nestedZip(zipped(Buffer.alloc(100_000_000)), 4, 16), /unpacks to more/],
    ['one that is only wide', () => nestedZip(Buffer.alloc(1_000), 4, 16), /holds more than 10,000 files/],
    ['gzip of a great many zeros', () => gzipSync(Buffer.alloc(200_000_000)), /unpacks to more/],
    ['gzip of gzip', () => gzipSync(gzipSync(Buffer.alloc(200_000_000))), /unpacks to more/],
    ['a file that is mostly nothing', () => zipped(zeros), /200 times its size/],
    [
      'one file that is too large, packed as well as a file may be',
      () => gzipSync(sparse(65)),
      /more than is examined/,
    ],
    [
      'gzip files one behind the other, each of which may be',
      () => Buffer.concat(Array.from({ length: 14 }, () => gzipSync(zeros.subarray(0, 15_000_000)))),
      /more than is examined/,
    ],
    ['ZIP64 that tells a size beyond the limits', () => wideZip(2n ** 40n), /more than is examined/],
    [
      'many of them',
      () => zipOf(Array.from({ length: 30 }, (_, n) => ({ name: `${n}`, content: zeros.subarray(0, 15_000_000) }))),
      /unpacks to more/,
    ],
    [
      '100,000 files',
      () => zipOf(Array.from({ length: 100_000 }, (_, n) => ({ name: `${n}`, content: wide }))),
      /holds more than 10,000 files/,
    ],
    [
      'tar of 10,001 files',
      () => Buffer.concat(Array.from({ length: 10_001 }, () => tarOf('a', Buffer.alloc(0)).subarray(0, 512))),
      /holds more than 10,000 files/,
    ],
    [
      'tar, whose record of pax tells more sizes than files may be',
      () => tarOfSizes(200_000),
      /holds more than 10,000 files/,
    ],
    [
      'tar, whose record for all files tells more sizes than files may be',
      () => tarOfSizes(200_000, 'g'),
      /holds more than 10,000 files/,
    ],
    ['nested too deep', () => nestedZip(Buffer.from('x'), 30), /nested more than 10 deep/],
    ['files that overlap', overlappingZip, /overlap/],
    [
      'a count that is a lie',
      () => zipOf([{ name: 'a', content: wide }], ({ end }) => end.writeUInt16LE(7, 10)),
      /contradicts/,
    ],
    [
      'a place that is a lie',
      () => zipOf([{ name: 'a', content: wide }], ({ end }) => end.writeUInt32LE(4_000_000, 16)),
      /contradicts/,
    ],
    [
      'a size that is a lie',
      () => zipOf([{ name: 'a', content: wide }], ({ list }) => list[0]?.writeUInt32LE(0xfff0_0000, 24)),
      /unpacks to more/,
    ],
    ['ZIP64 that is a lie', wideLie, /contradicts/],
    [
      'a zip that unpacks only in part',
      () => partly((raw) => replaced(zipped(eicar), deflateRawSync(eicar, { level: 9 }), raw)),
      /damaged/,
    ],
    ['gzip that unpacks only in part', () => partly((raw) => Buffer.concat([packed.subarray(0, 10), raw])), /damaged/],
  ]
  test.each(bombs)('%s', (_, make, why) => {
    const bytes = make()
    const before = process.memoryUsage()
    const findings = look(bytes)
    expect(findings).toMatchObject({ kind: 'refused', position: 0, why: expect.stringMatching(why) })
    expect(process.memoryUsage().arrayBuffers - before.arrayBuffers).toBeLessThan(
      limits.scanBytesMax + 2 * limits.scanEntryBytesMax,
    )
  })

  test('mails in mails, too deep', () => {
    let level = mail(part('base64', wrapped(Buffer.from('clean'))))
    for (let depth = 0; depth < 11; depth++) level = mail(part('base64', wrapped(level)))
    expect(look(level)).toMatchObject({ kind: 'refused', why: 'is nested more than 10 deep' })
  })

  test('a mail of more encoded parts than an engine is asked about, where there is one', () => {
    const many = mail(
      ...Array.from({ length: limits.scanLeavesMax + 1 }, (_, n) => part('base64', wrapped(gzipSync(`${n}`)))),
    )
    const files = [{ filename: 'm', contentType: 'message/rfc822', bytes: new Uint8Array(many) }]
    expect(examine({ files, wantsLeaves: true, ms: Infinity })).toEqual({
      kind: 'refused',
      position: 0,
      why: 'holds more than 200 encoded parts',
    })
    expect(examine({ files, wantsLeaves: false, ms: Infinity })).toEqual(clean)
  })

  const whole = (bytes: Buffer): Findings =>
    examine({
      files: [{ filename: 'm', contentType: 'message/rfc822', isWholeMail: true, bytes: new Uint8Array(bytes) }],
      wantsLeaves: false,
      ms: Infinity,
    })

  test('a submitted mail of which not all parts are read: behind them may be more attachments than it may have', () => {
    const files = Array.from({ length: limits.attachmentsMax + 1 }, (_, n) => part('7bit', `${n}`))
    expect(whole(mail(...files))).toEqual({ kind: 'overfull', count: files.length })
    const texts = Array.from({ length: limits.mimePartsMax }, () => '\r\n')
    expect(whole(mail(...texts, ...files))).toEqual({
      kind: 'refused',
      position: 0,
      why: 'has more parts, deeper ones or longer headers than are examined',
    })
    expect(whole(mail(...texts.slice(100), ...files.slice(1)))).toEqual(clean)
  })

  test.each([
    [
      'behind a hundred other parameters',
      `${Array.from({ length: 100 }, (_, n) => `p${n}=1`).join(';\r\n ')}; boundary=xx`,
    ],
    ['of 300 octets', `boundary="${'x'.repeat(300)}"`],
    ['of a whole line', `\r\n boundary="${'x'.repeat(980)}"`],
    ['with a blank at its end, which no delimiter can have', 'boundary="xx "'],
  ])('a boundary %s hides no attachment', (_, parameters) => {
    const [boundary = ''] = /x+(?=[ "]|$)/.exec(parameters) ?? []
    const bearing = (...parts: string[]): Buffer =>
      Buffer.from(
        `From: a@b.example\r\nContent-Type: multipart/mixed;\r\n ${parameters}\r\n\r\n${parts.map((each) => `--${boundary}\r\n${each}`).join('')}--${boundary}--\r\n`,
        'latin1',
      )
    const files = Array.from({ length: limits.attachmentsMax + 1 }, (_each, n) => part('7bit', `${n}`))
    expect(whole(bearing(...files))).toEqual({ kind: 'overfull', count: files.length })
    expect(whole(bearing(...files.slice(1)))).toEqual(clean)
    expect(whole(bearing(part('base64', wrapped(packed))))).toEqual(infected)
  })

  test.each([
    `inline${Array.from({ length: 100 }, (_, n) => `;\r\n p${n}=1`).join('')}; filename=a.txt`,
    'inline; filename*1=a; filename*2=.txt',
    'inline; filename*00=a; filename*01=.txt',
    'inline filename=a.txt',
    'filename=a.txt',
    'inline\r\nContent-Disposition: attachment',
  ])('a text that some readers have for a file counts as one: %j', (disposition) => {
    const note = `Content-Type: text/plain\r\nContent-Disposition: ${disposition}\r\n\r\nx\r\n`
    const files = Array.from({ length: limits.attachmentsMax + 1 }, () => note)
    expect(whole(mail(...files))).toEqual({ kind: 'overfull', count: files.length })
  })

  test('a submitted mail that holds a piece of one that was cut: a reader makes the file of several', () => {
    const piece = `Content-Type: Message/Partial; id="a@b.example"; number=1; total=2\r\n\r\n${part('base64', wrapped(packed).slice(0, 40))}`
    const refused = { kind: 'refused', why: expect.stringMatching(/message\/partial/) }
    expect(whole(Buffer.from(`From: a@b.example\r\n${piece}`))).toMatchObject(refused)
    expect(whole(mail(piece))).toMatchObject(refused)
  })

  test('an archive that holds itself', () => {
    // Every level is the same file: what a quine of deflate shows to whoever unpacks it.
    let level = zipped(Buffer.from('seed'))
    for (let depth = 0; depth < 12; depth++) level = zipOf([{ name: 'r.zip', content: level, stored: true }])
    expect(look(level)).toMatchObject({ kind: 'refused', why: 'is nested more than 10 deep' })
  })

  test('texts made to be dear to read cost no more than ten large mails', { timeout: 900_000 }, () => {
    const absent = Array.from({ length: 99 }, (_, at) => `boundary=never${at}\n`).join('')
    const dear: [string, Findings['kind']][] = [
      [`Content-Transfer-Encoding: ${'x'.repeat(10_000_000)}`, 'clean'],
      [`Content-Transfer-Encoding: base64\n${' \n'.repeat(3_000_000)}`, 'clean'],
      [`${'Content-Transfer-Encoding: base64\n'.repeat(2_000)}\n${'QUFB\n'.repeat(100_000)}`, 'clean'],
      [`${' '.repeat(10_000_000)}Content-Transfer-Encoding: base64`, 'clean'],
      [`${'boundary=x'.repeat(1_000_000)}\nContent-Transfer-Encoding: 7bit\n\n`, 'clean'],
      ['begin 644 a\n'.repeat(2_000), 'clean'],
      ['begin 644 a\n'.repeat(300_000), 'clean'],
      ['begin 644 a\n`\n'.repeat(300_000), 'clean'],
      ['begin-base64 644 a\nQUFB\n'.repeat(200_000), 'refused'],
      [`Content-Transfer-Encoding: quoted-printable\n\n${'begin 644 a\n'.repeat(300_000)}`, 'clean'],
      ['\n='.repeat(3_000_000), 'clean'],
      [`${'begin 644 a\n`\n'.repeat(30_000)}end\n`, 'clean'],
      [`begin 644 a\n${'M\n'.repeat(2_000_000)}end\n`, 'refused'],
      // Sections without a body, which are no files: each looks for its end.
      [`${absent}${'Content-Transfer-Encoding: base64\n\n--b\n'.repeat(500)}`, 'clean'],
      [`${absent}${'Content-Transfer-Encoding: 7bit\n\n'.repeat(50_000)}`, 'clean'],
      ['Content-Transfer-Encoding: base64\n'.repeat(200_000), 'clean'],
    ]
    // Of this thread's own work, whatever else the machine does; no time limit ends it.
    const cost = (bytes: Buffer): [Findings['kind'], number] => {
      const before = process.threadCpuUsage()
      const { kind } = look(bytes, 'm', 'message/rfc822')
      const { user, system } = process.threadCpuUsage(before)
      return [kind, user + system]
    }
    const [, large] = cost(mail(part('base64', wrapped(randomBytes(limits.attachmentsBytesMax)))))
    for (const [text, kind] of dear) {
      const [found, cpu] = cost(Buffer.from(text))
      expect(found).toBe(kind)
      expect(cpu / large).toBeLessThan(10)
    }
  })

  test('the time is looked at where nothing is found, too', () => {
    const bytes = Buffer.from('Content-Transfer-Encoding: base64\n\n--b\n'.repeat(20_000))
    expect(look(bytes, 'm', 'message/rfc822', 0)).toEqual({ kind: 'late' })
  })

  test('when the time is over nobody knows, and that is what is said', () => {
    expect(look(nestedZip(Buffer.from('x'), 3), 'a.zip', 'application/zip', 0)).toEqual({ kind: 'late' })
  })
})

describe('the leaves of a mail, for an engine', () => {
  test('each is there, decoded, with the position of its file', () => {
    const bytes = mail(part('base64', wrapped(packed)), part('quoted-printable', quoted(Buffer.from('second'))))
    const order = { filename: 'm', contentType: 'message/rfc822', bytes: new Uint8Array(bytes) }
    const other = { filename: 'a', contentType: 'application/pdf', bytes: new Uint8Array(10) }
    const clear = Buffer.from(order.bytes)
      .toString('latin1')
      .replace(wrapped(packed), wrapped(gzipSync('first')))
    const findings = examine({
      files: [other, { ...order, bytes: new Uint8Array(Buffer.from(clear, 'latin1')) }],
      wantsLeaves: true,
      ms: Infinity,
    })
    if (findings.kind !== 'clean') throw new Error(findings.kind)
    expect(findings.leaves.every(({ position }) => position === 1)).toBe(true)
    const texts = findings.leaves.map(({ bytes: leaf }) => Buffer.from(leaf).toString('latin1'))
    expect(texts).toContain(gzipSync('first').toString('latin1'))
    expect(texts.some((text) => text.startsWith('second'))).toBe(true)
  })

  test('also of a mail whose name and type are of something else', () => {
    const bytes = new Uint8Array(mail(part('base64', wrapped(gzipSync('inner')))))
    const files = [{ filename: 'a.bin', contentType: 'application/octet-stream', bytes }]
    const findings = examine({ files, wantsLeaves: true, ms: Infinity })
    if (findings.kind !== 'clean') throw new Error(findings.kind)
    const leaves = findings.leaves.map(({ bytes: leaf }) => Buffer.from(leaf).toString('latin1'))
    expect(leaves).toContain(gzipSync('inner').toString('latin1'))
  })

  test.each([
    ['uuencoded', uuencoded(gzipSync('inner'))],
    ['begin-base64', `Look:\r\n${beginBase64(wrapped(gzipSync('inner')))}`],
  ])('a file that is %s inside quoted-printable is there, too', (_, body) => {
    const bytes = new Uint8Array(root('quoted-printable', quoted(Buffer.from(body))))
    const findings = examine({
      files: [{ filename: 'm', contentType: 'message/rfc822', bytes }],
      wantsLeaves: true,
      ms: Infinity,
    })
    if (findings.kind !== 'clean') throw new Error(findings.kind)
    const leaves = findings.leaves.map(({ bytes: leaf }) => Buffer.from(leaf).toString('latin1'))
    expect(leaves).toContain(gzipSync('inner').toString('latin1'))
  })
})

/** What readers of Base64 pass over. */
function junk(text: string): string {
  return text.replace(/(.{10})/g, '$1!*')
}

/** Its file goes on behind this line, for every reader that knows which boundaries are open. */
function decoyBoundary(line: string): Buffer {
  const text = wrapped(packed)
  const body = `${text.slice(0, 40)}\r\n${line}\r\n${text.slice(40)}`
  return mail('Content-Type: text/plain\r\n\r\nboundary=":::"\r\n', part('base64', body))
}

const manyFiles = (count: number): Buffer =>
  zipOf(Array.from({ length: count }, (_, n) => ({ name: `${n}`, content: Buffer.from(`${n}`) })))

/** An archive of one file, in whose local header stands something else than in the list. */
function lyingHeader(stored: boolean, at: number, value: number): Buffer {
  const archive = zipOf([{ name: 'a', content: stored ? packed : eicar, stored }])
  archive.writeUInt16LE(value, at)
  return archive
}

/** Programs that look for a list whose comment ends with the file find the first; the last stands in its comment. */
function twoLists(): Buffer {
  const archive = lyingHeader(false, 8, 0)
  const lie = archive.subarray(-69) // list and end record
  const second = Buffer.from(lie)
  second.writeUInt16LE(0, 10)
  second.writeUInt32LE(archive.length, second.length - 6)
  second.writeUInt16LE(1, second.length - 2)
  archive.writeUInt16LE(second.length, archive.length - 2)
  return Buffer.concat([archive, second])
}

/** The first header calls an extra field what is the second file. A file that ends with `more` has it in the comment of its first list. */
function jumpedOver(more?: (at: number) => Buffer): Buffer {
  const archive = zipOf([
    { name: 'a', content: Buffer.alloc(0), stored: true },
    { name: 'b', content: eicar },
  ])
  archive.writeUInt16LE(archive.indexOf('PK\u0001\u0002') - 31, 28)
  const comment = more?.(archive.length) ?? Buffer.alloc(0)
  archive.writeUInt16LE(comment.length, archive.length - 2)
  return Buffer.concat([archive, comment])
}

/** The list names a third file in the middle of the first; the first header lies, at `place`, about what belongs to it. */
function doubtful(lie: (archive: Buffer) => number, place: number): Buffer {
  const files = [
    { name: 'a', content: Buffer.from('a'), stored: true },
    { name: 'b', content: eicar },
    { name: 'c', content: Buffer.from('c') },
  ]
  const archive = zipOf(files, ({ list }) => void list[2]?.writeUInt32LE(5, 42))
  archive.writeUInt16LE(lie(archive), place)
  return Buffer.concat([Buffer.alloc(99), archive])
}

/** Of a comment that is longer than the file. */
function emptyList(at: number): Buffer {
  const end = zipOf([])
  end.writeUInt32LE(at, 16)
  end.writeUInt16LE(1, 20)
  return end
}

/** Before its list stands a byte that the list knows nothing of: some programs move all places by it, others none. */
function shifted(): Buffer {
  const archive = jumpedOver()
  const list = archive.indexOf('PK\u0001\u0002')
  return Buffer.concat([archive.subarray(0, list), Buffer.alloc(1), archive.subarray(list)])
}

/** What its places mean from the end of the file is a header, too. */
function countedFromBefore(): Buffer {
  const archive = manyFiles(1)
  const first = Buffer.from(archive)
  first.writeUInt32LE(first.indexOf('PK\u0001\u0002') + archive.length, first.length - 6)
  return Buffer.concat([first, archive])
}

/** RFC 1952, 2.3: extra field, name, comment, checksum of the header. */
function gzipWithFields(): Buffer {
  const head = Buffer.from(packed.subarray(0, 10))
  head[3] = 2 | 4 | 8 | 16
  return Buffer.concat([
    head,
    Buffer.from('\u0005\0\xff\xff\xff\0\xffname\0comment\0\xff\xff', 'latin1'),
    packed.subarray(10),
  ])
}

const tarBehind = (first: Buffer): Buffer => Buffer.concat([tarOf('a', first).subarray(0, -1_024), tarOf('b', packed)])

function wideTar(): Buffer {
  const content = Buffer.concat([packed, Buffer.alloc(261 - packed.length)])
  const archive = tarOf('a', content)
  archive.fill(0, 124, 136)
  archive[124] = 0x80
  archive.writeUInt32BE(content.length, 132)
  return withTarSum(archive)
}

/** As programs write that do not know the size beforehand (flag 8); the file holds what looks like the next record. */
function storedWithoutSize(): Buffer {
  const content = Buffer.concat([Buffer.from('1f8b0808000000000003504b00', 'hex'), packed.subarray(10)])
  const archive = zipOf([{ name: 'a', content, stored: true }])
  archive.writeUInt16LE(8, 6)
  archive.writeUInt32LE(0, 18)
  return archive
}

/** What deflate makes of the file, and behind it what is none. */
function partly(make: (raw: Buffer) => Buffer): Buffer {
  const whole = deflateRawSync(eicar, { level: 9, finishFlush: constants.Z_FULL_FLUSH })
  return make(Buffer.concat([whole, Buffer.alloc(40, 0xff)]))
}

/** The same archive with another stream in it, of whatever length. */
function replaced(archive: Buffer, stream: Buffer, by: Buffer): Buffer {
  const start = archive.indexOf(stream)
  const out = Buffer.concat([archive.subarray(0, start), by, archive.subarray(start + stream.length)])
  const list = out.indexOf('PK\u0001\u0002')
  for (const at of [18, list + 20]) out.writeUInt32LE(by.length, at)
  out.writeUInt32LE(list, out.length - 6)
  return out
}

/** Without the blocks at the end; `size` stands in its header. */
function tarEntry(type: string, content: Buffer, size = content.length): Buffer {
  const entry = tarOf('a', content).subarray(0, content.length === 0 ? 512 : -1_024)
  entry.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  entry.write(`        ${type}`, 148)
  const sum = entry.subarray(0, 512).reduce((all, byte) => all + byte, 0)
  entry.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return entry
}

function wideStored(): Buffer {
  const [head, name] = [Buffer.alloc(30), Buffer.from('a')]
  head.write('PK\u0003\u0004', 'latin1')
  head.fill(0xff, 18, 26)
  head.writeUInt16LE(name.length, 26)
  head.writeUInt16LE(20, 28)
  const wide = Buffer.alloc(20)
  wide.writeUInt16LE(1, 0)
  wide.writeUInt16LE(16, 2)
  for (const at of [4, 12]) wide.writeBigUInt64LE(BigInt(packed.length), at)
  return Buffer.concat([head, name, wide, packed])
}

function posixTar(): Buffer {
  const archive = tarOf('e.gz', packed)
  archive.write('ustar', 257)
  return withTarSum(archive)
}

function signedTar(): Buffer {
  const archive = tarOf('a', packed)
  archive[1] = 0xff
  const sum = archive
    .subarray(0, 512)
    .reduce((all, byte, at) => all + (at >= 148 && at < 156 ? 32 : (byte << 24) >> 24), 0)
  archive.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return archive
}

/** The record of pax counts (POSIX 4.18), and behind that much stands the next file. */
function tarOfTwoSizes(): Buffer {
  const inner = Buffer.concat([Buffer.alloc(512, 'x'), tarOf('b', packed)])
  const pax = tarOf('pax', Buffer.from('12 size=512\n')).subarray(0, 1_024)
  pax.write('x', 156)
  return Buffer.concat([withTarSum(pax), tarOf('a', inner)])
}

/** A record of pax that tells so many sizes, each another one. */
const tarOfSizes = (many: number, type = 'x'): Buffer =>
  tarEntry(type, Buffer.from(Array.from({ length: many }, (_, at) => ` size=${at + 1}\n`).join('')))

function withTarSum(archive: Buffer): Buffer {
  const sum = archive.subarray(0, 512).reduce((all, byte, at) => all + (at >= 148 && at < 156 ? 32 : byte), 0)
  archive.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return archive
}

/** So many MiB, which pack to a hundredth. */
function sparse(megabytes: number): Buffer {
  const bytes = Buffer.alloc(megabytes * 1024 * 1024)
  for (let at = 0; at < bytes.length; at += 2_048) randomBytes(16).copy(bytes, at)
  return bytes
}

/** Two files, whose numbers all stand in the wide fields, behind another field and before a comment. */
function wideZip(size = 1n): Buffer {
  const plain = zipOf(['a', 'b'].map((name) => ({ name, content: Buffer.from(name) })))
  const begin = plain.indexOf('PK\u0001\u0002')
  const wide = (lead: Buffer, ...values: bigint[]): Buffer => {
    const numbers = Buffer.alloc(8 * values.length)
    for (const [at, value] of values.entries()) numbers.writeBigUInt64LE(value, 8 * at)
    return Buffer.concat([lead, numbers])
  }
  const list = [begin, begin + 47].map((at) => {
    const entry = Buffer.from(plain.subarray(at, at + 47))
    const [packedSize, offset] = [entry.readUInt32LE(20), entry.readUInt32LE(42)].map(BigInt)
    for (const place of [20, 24, 42]) entry.writeUInt32LE(0xffff_ffff, place)
    entry.writeUInt16LE(5 + 28, 30)
    entry.writeUInt16LE(3, 32)
    const fields = wide(Buffer.from('UT\u0001\0x\u0001\0\u0018\0', 'latin1'), size, packedSize ?? 0n, offset ?? 0n)
    return Buffer.concat([entry, fields, Buffer.from('why')])
  })
  const sizeOfList = BigInt(list.reduce((sum, entry) => sum + entry.length, 0))
  const head = Buffer.alloc(24)
  head.write('PK\u0006\u0006', 'latin1')
  const record = wide(head, 2n, 2n, sizeOfList, BigInt(begin))
  const locator = Buffer.concat([wide(Buffer.from('PK\u0006\u0007\0\0\0\0', 'latin1'), 0n), Buffer.from([1, 0, 0, 0])])
  const end = Buffer.concat([Buffer.from('PK\u0005\u0006\0\0\0\0', 'latin1'), Buffer.alloc(12, 0xff), Buffer.alloc(2)])
  return Buffer.concat([plain.subarray(0, begin), ...list, record, locator, end])
}

/** A ZIP64 record that counts otherwise than the plain one. */
function wideLie(): Buffer {
  const honest = zipped(Buffer.from('x'))
  const end = honest.subarray(-22)
  const record = Buffer.alloc(56)
  record.write('PK\u0006\u0006', 'latin1')
  record.writeBigUInt64LE(2n ** 40n, 32)
  record.writeBigUInt64LE(2n ** 40n, 40)
  const locator = Buffer.alloc(20)
  locator.write('PK\u0006\u0007', 'latin1')
  return Buffer.concat([honest.subarray(0, -22), record, locator, end])
}
