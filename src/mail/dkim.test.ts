import * as fc from 'fast-check'
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import { describe, expect, test } from 'vitest'
import { dkimVerdicts } from '../../test/world/dkim-verdict.ts'
import { composeMail, headerBlock } from './compose.ts'
import type { HeaderField } from './compose.ts'
import { canonicalBody, dkimHeaders, dkimRecord, generateDkimKey, signingKey } from './dkim.ts'

const rsa = await generateDkimKey()
const key = signingKey({ domain: 'example.com', selector: 's1', privateKeyPem: rsa.privateKeyPem })
const signedAt = Math.floor(Date.now() / 1000)

/** The answer of a verifier that is not ours. */
async function verify(wire: Buffer, record = dkimRecord(rsa.publicKeyBase64)): Promise<string> {
  const { results } = await dkimVerify(wire, {
    strict: true,
    resolver: (name: string, type: string) =>
      name === 's1._domainkey.example.com' && type === 'TXT'
        ? Promise.resolve([record.match(/.{1,255}/g) ?? []])
        : Promise.reject(Object.assign(new Error('no such record'), { code: 'ENOTFOUND' })),
  })
  return results.map((result) => result.status.result).join()
}

const fields: readonly HeaderField[] = [
  ['From', '"Acme" <a@example.com>'],
  ['To', 'b@example.org'],
  ['Subject', 'Hello'],
  ['Date', 'Sun, 01 Nov 2026 09:08:07 +0000'],
  ['Message-ID', '<1@example.com>'],
  ['MIME-Version', '1.0'],
  ['Content-Type', 'text/plain; charset=utf-8'],
  ['Content-Transfer-Encoding', '7bit'],
]

async function signed(given: readonly HeaderField[], body: Buffer, more?: readonly string[]): Promise<Buffer> {
  const header = await dkimHeaders([key], given, body, signedAt, more)
  return Buffer.concat([Buffer.from(header + headerBlock(given), 'latin1'), body])
}

describe('an independent verifier accepts the signature', () => {
  const bodies: Record<string, string | Buffer> = {
    plain: 'Hello.\r\nBye.\r\n',
    empty: '',
    'one line end': '\r\n',
    'many line ends': '\r\n\r\n\r\n\r\n',
    'line ends behind a text': 'a\r\n\r\n\r\n',
    'no line end at the end': 'Hello.\r\nBye.',
    'one space': ' ',
    'a line of blanks': ' \t \r\n',
    'lines of blanks at the end': 'a\r\n \r\n\t\r\n  \r\n',
    'blanks at line ends': 'a \r\nb\t\r\nc \t \r\nd ',
    'blanks at line starts': ' a\r\n\tb\r\n  c\r\n',
    'runs of blanks': 'a  b\tc \t d\te\r\n',
    tabs: '\ta\t\tb\t\r\n',
    dots: '.\r\n..\r\n.a\r\n',
    'eight bits': Buffer.from([0xe4, 0xf6, 0xfc, 0x20, 0x20, 0xa0, 0x20, 0x0d, 0x0a]),
    'NUL and form feed': 'a\0b \f c\v \r\n',
    'a form feed, no line end, blanks at the end': 'page 1 \f\r\npage 2 \t',
    'a form feed and line ends at the end': 'page 1\r\n\f\r\n\r\n\r\n',
    'lines of nothing but blanks': ' \r\n\t\r\n\r\n',
    'a long line': `${'x y  '.repeat(20_000)}\r\n`,
    '5 MB of Base64': `${'QUJD'.repeat(19)}\r\n`.repeat(66_000),
    '5 MB of blanks at line ends': 'some words \t and  more \r\n'.repeat(210_000),
  }
  for (const [name, body] of Object.entries(bodies))
    test(`body: ${name}`, async () =>
      expect(await verify(await signed(fields, Buffer.from(body as string)))).toBe('pass'))

  test('over a mail that we composed', async () => {
    const mail = composeMail({
      messageId: '0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
      hostname: 'mail.example.com',
      from: { address: 'ü@example.com', name: 'Jürgen, “Boss”' },
      to: `${'b'.repeat(64)}@${'c'.repeat(63)}.example.org`,
      subject: 'Übergrößenträger  '.repeat(20),
      bodyText: 'Grüße \n\n \n',
      attachments: [{ filename: 'ä.bin', contentType: 'text/plain; name="a;  b"', bytes: Buffer.alloc(300_000, 'x') }],
      createdAt: new Date(),
    })
    expect(await verify(await signed(mail.fields, mail.body))).toBe('pass')
  })

  test('over a mail that somebody else composed', async () => {
    const submitted: HeaderField[] = [
      ['Received', 'from a  by b;\r\n\tSun'],
      ['received', 'from c by d'],
      ['SUBJECT ', '  Spaced   out\r\n \t folded\t '],
      ['from', ' a@example.com'],
      ['To', 'b@example.org,\r\n\tc@example.org'],
      ['To', 'd@example.org'],
      ['X-Raw', 'caf\xe9 \xa0 x'],
      ['X-Empty', ''],
      ['List-Unsubscribe', '<https://example.com/u>'],
    ]
    const more = ['x-raw', 'x-empty', 'received', 'list-unsubscribe', 'x-absent', 'from']
    expect(await verify(await signed(submitted, Buffer.from('x\r\n'), more))).toBe('pass')
  })

  test('with Ed25519 beside RSA: each of two signatures is that of its own record, and stands without the other (RFC 8463 3)', async () => {
    const made = await generateDkimKey('ed25519-sha256')
    const edwards = signingKey({ domain: 'example.com', selector: 's2', privateKeyPem: made.privateKeyPem })
    const body = Buffer.from('Hello.\r\n')
    const header = await dkimHeaders([key, edwards], fields, body, signedAt)
    expect([...header.matchAll(/^DKIM-Signature: v=1; a=([\w-]+);/gm)].map(([, algorithm]) => algorithm)).toEqual([
      'rsa-sha256',
      'ed25519-sha256',
    ])
    const wire = Buffer.concat([Buffer.from(header + headerBlock(fields), 'latin1'), body])
    const at = (selector: string, value: string) =>
      ({ type: 'TXT', name: `${selector}._domainkey.example.com`, value }) as const
    const records = [
      at('s1', dkimRecord(rsa.publicKeyBase64)),
      at('s2', dkimRecord(made.publicKeyBase64, 'ed25519-sha256')),
    ]
    const verdicts = async (published: typeof records) => (await dkimVerdicts(wire, published)).toSorted()
    expect(await verdicts(records)).toEqual(['pass example.com', 'pass example.com'])
    for (const one of records) expect(await verdicts([one])).toEqual(['neutral example.com', 'pass example.com'])
    expect(made.publicKeyBase64).toBe(
      Buffer.from(createPublicKey(made.privateKeyPem).export({ format: 'jwk' }).x ?? '', 'base64url').toString(
        'base64',
      ),
    )
  })

  test('whatever stands in fields and body', async () => {
    const text = fc.string({
      unit: fc.constantFrom(' ', '\t', 'a', '\xe4', ':', ';', '=', '\r\n ', '\r\n\t'),
      maxLength: 40,
    })
    const body = fc.string({ unit: fc.constantFrom(' ', '\t', 'a', '.', '\r\n', '\xe4', '\0', '\f'), maxLength: 60 })
    await fc.assert(
      fc.asyncProperty(text, text, body, async (subject, value, content) => {
        const given: HeaderField[] = [...fields, ['Subject', subject], ['X-Any', value]]
        const wire = await signed(given, Buffer.from(content, 'latin1'), ['x-any'])
        expect(await verify(wire)).toBe('pass')
      }),
      { numRuns: 100 },
    )
  })
})

describe('tampering breaks the signature', () => {
  const body = Buffer.from('Hello, world.\r\n')
  const changes: Record<string, (wire: string) => string> = {
    'another body': (wire) => wire.replace('world', 'w0rld'),
    'a line more': (wire) => `${wire}x\r\n`,
    'another subject': (wire) => wire.replace('Subject: Hello', 'Subject: hello'),
    'another From': (wire) => wire.replace('a@example.com', 'z@example.com'),
    'another To': (wire) => wire.replace('b@example.org', 'z@example.org'),
    'another date': (wire) => wire.replace('09:08:07', '09:08:08'),
    'another Message-ID': (wire) => wire.replace('<1@', '<2@'),
    'another content type': (wire) => wire.replace('text/plain', 'text/html'),
    'no Content-Transfer-Encoding': (wire) => wire.replace('Content-Transfer-Encoding: 7bit\r\n', ''),
    'a second From, above': (wire) => wire.replace('From: ', 'From: z@example.com\r\nFrom: '),
    'a second From, below': (wire) => wire.replace('\r\n\r\n', '\r\nFrom: z@example.com\r\n\r\n'),
    'a second To': (wire) => wire.replace('To: ', 'To: z@example.com\r\nTo: '),
    'a second Subject': (wire) => wire.replace('Subject: ', 'Subject: x\r\nSubject: '),
    'a second Date': (wire) => wire.replace('\r\nDate: ', '\r\nDate: x\r\nDate: '),
    'a Reply-To where there was none': (wire) => wire.replace('From: ', 'Reply-To: z@example.com\r\nFrom: '),
    'a Cc where there was none': (wire) => wire.replace('From: ', 'Cc: z@example.com\r\nFrom: '),
    'a second Message-ID': (wire) => wire.replace('From: ', 'Message-ID: <z@example.com>\r\nFrom: '),
    'a second Content-Type': (wire) => wire.replace('From: ', 'Content-Type: text/html\r\nFrom: '),
    'a second Content-Transfer-Encoding': (wire) =>
      wire.replace('From: ', 'Content-Transfer-Encoding: base64\r\nFrom: '),
    'another time of signing': (wire) => wire.replace(`t=${signedAt}`, `t=${signedAt - 1}`),
  }
  for (const [name, change] of Object.entries(changes))
    test(name, async () => {
      const wire = (await signed(fields, body)).toString('latin1')
      const changed = change(wire)
      expect(changed).not.toBe(wire)
      expect(await verify(Buffer.from(changed, 'latin1'))).not.toBe('pass')
    })

  test('another value of a field that is to be signed where it occurs', async () => {
    const given: HeaderField[] = [...fields, ['List-Unsubscribe', '<https://example.com/u>']]
    const wire = (await signed(given, body, ['list-unsubscribe'])).toString('latin1')
    const changed = wire.replace('example.com/u', 'example.com/z')
    expect(changed).not.toBe(wire)
    expect(await verify(Buffer.from(wire, 'latin1'))).toBe('pass')
    expect(await verify(Buffer.from(changed, 'latin1'))).not.toBe('pass')
  })

  test('and what relays may do to white space does not', async () => {
    const wire = (await signed(fields, body)).toString('latin1')
    const changed = `${wire.replace('Subject: Hello', 'subject:\tHello ').replace('Hello, world.', 'Hello,  world. ')}\r\n\r\n`
    expect(await verify(Buffer.from(changed, 'latin1'))).toBe('pass')
  })

  test('nor does what an honest relay may add because it was missing', async () => {
    const plain = fields.filter(([name]) => !/^(?:mime|content)-/i.test(name))
    const wire = (await signed(plain, body)).toString('latin1')
    const added = 'MIME-Version: 1.0\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: 7bit\r\n'
    const changed = wire.replace('From: ', `${added}From: `)
    expect(changed).not.toBe(wire)
    expect(await verify(Buffer.from(changed, 'latin1'))).toBe('pass')
  })
})

test('the field stays within 78 columns and ends its line', async () => {
  const header = await dkimHeaders([key], fields, Buffer.from('x'), signedAt, ['list-unsubscribe', 'x-posthorn-token'])
  expect(header).toMatch(/^DKIM-Signature: v=1; [\t\x20-\x7e\r\n]*\r\n$/)
  expect(header.slice(0, -2).replaceAll('\r\n ', '')).not.toMatch(/[\r\n]/)
  for (const line of header.split('\r\n')) expect(line.length).toBeLessThanOrEqual(78)
})

describe('relaxed body canonicalization', () => {
  const cases: [given: string, canonical: string][] = [
    [' C \r\nD \t E\r\n\r\n\r\n', ' C\r\nD E\r\n'], // RFC 6376 3.4.5
    ['', ''],
    ['\r\n', ''],
    [' \r\n\t\r\n', ''],
    ['a', 'a\r\n'],
    ['a\r\n', 'a\r\n'],
    ['a\tb', 'a b\r\n'],
    ['\r\na\r\n', '\r\na\r\n'],
  ]
  for (const [given, canonical] of cases)
    test(JSON.stringify(given), () => expect(canonicalBody(Buffer.from(given)).toString()).toBe(canonical))

  test('equals its definition', () => {
    const body = fc.string({ unit: fc.constantFrom(' ', '\t', 'a', '\r\n', '\r', '\n'), maxLength: 40 })
    fc.assert(
      fc.property(body, (text) => {
        const reduced = text
          .replace(/[ \t]+/g, ' ')
          .replace(/ (?=\r\n|$)/g, '')
          .replace(/(\r\n)+$/, '')
        expect(canonicalBody(Buffer.from(text)).toString()).toBe(reduced === '' ? '' : `${reduced}\r\n`)
      }),
      { numRuns: 2_000 },
    )
  })

  test('a canonical body is not copied', () => {
    const body = Buffer.from(`${'Hello, world.\r\n'.repeat(100)}\r\n`)
    expect(canonicalBody(body).buffer).toBe(body.buffer)
    expect(canonicalBody(body).byteOffset).toBe(body.byteOffset)
  })
})

// Rspamd 3.4 said R_DKIM_REJECT to each of these with c=relaxed/relaxed, and no other verifier did.
test.each(['page 1\f\r\npage 2\r\n', '\f\r\n', ' \r\n', '\t\r\n\r\n', ' \r\n \r\n'])(
  'a body of which Rspamd has a relaxed form of its own is signed as it stands: %j',
  async (body) => {
    const wire = (await signed(fields, Buffer.from(body))).toString('latin1')
    expect(wire).toContain(' c=relaxed/simple;')
    expect(await verify(Buffer.from(wire, 'latin1'))).toBe('pass')
    // Whether the last line ends say anything is the same in both forms.
    expect(await verify(Buffer.from(`${wire}\r\n`, 'latin1'))).toBe('pass')
  },
)

test.each(['', '\r\n', '\r\n \r\n', 'a\r\n \r\n', ' a\r\n', 'Hello.\v\r\n'])(
  'any other body may lose or gain blanks on its way: %j',
  async (body) => expect((await signed(fields, Buffer.from(body))).toString('latin1')).toContain(' c=relaxed/relaxed;'),
)

test('a key that nobody would verify is refused when it is read', () => {
  const source = { domain: 'example.com', selector: 's1' }
  const weak = generateKeyPairSync('rsa', { modulusLength: 1_024 }).privateKey
  const curve = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  for (const each of [weak, curve]) {
    const privateKeyPem = each.export({ type: 'pkcs8', format: 'pem' }).toString()
    expect(() => signingKey({ ...source, privateKeyPem })).toThrow('2048')
  }
  expect(() => signingKey({ ...source, privateKeyPem: 'nonsense' })).toThrow()
})

test('the record publishes the key that belongs to the private one', () => {
  const expected = createPublicKey(rsa.privateKeyPem).export({ type: 'spki', format: 'der' }).toString('base64')
  expect(dkimRecord(rsa.publicKeyBase64)).toBe(`v=DKIM1; k=rsa; p=${expected}`)
  expect(key.privateKey.asymmetricKeyDetails?.modulusLength).toBe(2_048)
})
