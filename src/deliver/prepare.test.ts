// From the database to the bytes on the wire, read back by a parser that is not ours.
import { generateKeyPairSync } from 'node:crypto'
import PostalMime from 'postal-mime'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { dkimVerdicts } from '../../test/world/dkim-verdict.ts'
import { limits } from '../config.ts'
import { makeVault, sealedAs } from '../base/secret.ts'
import { isRefusal } from '../domain/refusal.ts'
import { makeAccept } from '../accept/accept.ts'
import { acceptTools } from '../accept/accept.test-kit.ts'
import type { MessageSource } from '../domain/message.ts'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import { dkimRecord, generateDkimKey, type DkimAlgorithm } from '../mail/dkim.ts'
import { makeToken } from '../mail/return-path.ts'
import { claimDue } from '../store/claim.ts'
import { endEd25519, prepareDkimKey, suspendEd25519, switchDkimKey } from '../store/domain-checks.ts'
import type { Claimed } from '../store/outbound.ts'
import { makeReturnPathKeys, rotateReturnPathKey } from '../store/return-path-keys.ts'
import { storeWorld, wholeClaim, type Sender } from '../store/store.test-kit.ts'
import { makePreparer, type Prepared } from './prepare.ts'

const vault = makeVault('a key for the tests of prepare')
const pem = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString()

let sender: Sender
const world = await storeWorld()
beforeEach(async () => {
  await world.setClock()
  sender = await world.sender()
})

async function addKey(
  sealed = (name: string) => vault.seal(pem, sealedAs.dkimKey(sender.workspaceId, name)),
): Promise<void> {
  const name = await world.value<string>('select name from domains where id = $1', [sender.domainId])
  await world.db.run(
    `insert into dkim_key_pairs (workspace_id, domain_id, selector, algorithm, public_key, private_key_sealed) values ($1, $2, 's1', 'rsa-sha256', 'x', $3)`,
    [sender.workspaceId, sender.domainId, sealed(name)],
  )
}

/** As a check does that has seen the record of a new key. */
async function switchKey(selector: string, algorithm: DkimAlgorithm = 'rsa-sha256', text = pem): Promise<void> {
  const name = await world.value<string>('select name from domains where id = $1', [sender.domainId])
  const privateKeySealed = vault.seal(text, sealedAs.dkimKey(sender.workspaceId, name))
  const key = { selector, algorithm, publicKey: 'x', privateKeySealed }
  await prepareDkimKey(world.db, sender.workspaceId, sender.domainId, key)
  await world.db.transaction((tx) => switchDkimKey(tx, sender.workspaceId, sender.domainId, selector))
}
const selectorsOf = (mail: Buffer) =>
  [...mail.toString('latin1').matchAll(/^DKIM-Signature: [^]*?\bs=(\w+);/gm)].map(([, selector]) => selector)
const selectorOf = (mail: Buffer) => selectorsOf(mail)[0]

/** Accepted through the door, and claimed by a worker. */
async function accepted(
  bodyText: string,
  files: readonly Buffer[] = [],
  recipient = 'ann@example.org',
  source: MessageSource = 'rest',
): Promise<Claimed> {
  const answer = await makeAccept(acceptTools(world))({
    workspaceId: sender.workspaceId,
    mailboxId: sender.mailboxId,
    source,
    recipient: parseAddress(recipient) as EmailAddress,
    subject: 'Grüße 😀',
    bodyText,
    attachments: files.map((bytes, at) => ({
      filename: `Datei ${at}.bin`,
      contentType: 'application/octet-stream',
      bytes,
    })),
  })
  if (isRefusal(answer)) throw new Error(answer.code)
  const { claimed } = await claimDue(world.db, wholeClaim)
  return claimed.find(({ id }) => id === answer.message.id) as Claimed
}
const prepare = (claimed: Claimed) => makePreparer(world.db, vault).prepare(claimed)
const bytesOf = (prepared: Prepared | undefined): Buffer => Buffer.concat(prepared?.content as Buffer[])

describe('what is prepared', () => {
  test("a notice of Posthorn's own says that no person wrote it, so that nobody's absence answers it; customers' mail does not", async () => {
    await addKey()
    const headOf = async (source: MessageSource) =>
      bytesOf(await prepare(await accepted('Hello.\n', [], 'ann@example.org', source)))
        .toString('latin1')
        .split('\r\n\r\n')[0]
    expect(await headOf('notice')).toMatch(/^Auto-Submitted: auto-generated\r?$/m)
    expect(await headOf('rest')).not.toMatch(/^Auto-Submitted:/im)
  })

  const every = Buffer.from(Array.from({ length: 256 }, (_, at) => at))
  test.each([
    ['inline', 'Guten Tag.\n', [every, Buffer.alloc(0)]],
    ['staged', 'ö€😀 '.repeat(20_000), [Buffer.alloc(limits.contentChunkBytes + 77, every), Buffer.alloc(0), every]],
  ])('%s content arrives as it was accepted, empty files too', async (_, bodyText, files) => {
    await addKey()
    const prepared = await prepare(await accepted(bodyText, files))
    const mail = await PostalMime.parse(bytesOf(prepared))
    expect(mail.text?.replaceAll('\r\n', '\n').trimEnd() === bodyText.trimEnd()).toBe(true)
    expect(mail.subject).toBe('Grüße 😀')
    const kept = mail.attachments.map(({ content }) => Buffer.from(content as ArrayBuffer))
    expect(kept.map((bytes, at) => bytes.equals(files[at] as Buffer))).toEqual(files.map(() => true))
    expect(mail.attachments.map(({ filename }) => filename)).toEqual(files.map((_file, at) => `Datei ${at}.bin`))
    expect(prepared).toMatchObject({
      size: bytesOf(prepared).length,
      envelopeFrom: expect.stringContaining('@'),
      needs8bit: false,
    })
    expect(bytesOf(prepared).every((byte) => byte < 0x80)).toBe(true)
  })

  test('a large mail is held once: what it was made of is let go with it, each piece before the next is copied, and not when the collector comes', async () => {
    await addKey()
    const bytes = 10 * 1024 * 1024
    const claimed = await accepted('Guten Tag.\n', [Buffer.alloc(bytes, every)])
    const parts = new Set<Uint8Array>()
    const copy = Buffer.prototype.copy
    const joining = vi.spyOn(Buffer.prototype, 'copy').mockImplementation(function (this: Buffer, ...args: unknown[]) {
      const target = args[0] as Uint8Array
      if (target.length === bytes) {
        parts.delete(target)
        expect([...parts].map(({ byteLength }) => byteLength)).toEqual([...parts].map(() => 0))
        parts.add(this).add(target)
      }
      return copy.apply(this, args)
    })
    try {
      expect((await prepare(claimed))?.size).toBeGreaterThan(bytes)
    } finally {
      joining.mockRestore()
    }
    expect(parts.size).toBeGreaterThan(2) // the file, and what was read of it
    expect([...parts].map(({ byteLength }) => byteLength)).toEqual([...parts].map(() => 0))
  })

  test('where there is no memory to compose it in, that is no word about the mail: it is put off, and not given up after a few tries', async () => {
    await addKey()
    const claimed = await accepted('Guten Tag.\n', [every])
    const short = Object.assign(new RangeError('Failed to allocate memory'), { code: 'ERR_MEMORY_ALLOCATION_FAILED' })
    const alloc = vi.spyOn(Buffer, 'allocUnsafe')
    try {
      alloc.mockImplementation((size) => {
        if (size > 512) throw short
        return Buffer.alloc(size)
      })
      await expect(prepare(claimed)).rejects.toBe(short)
    } finally {
      alloc.mockRestore()
    }
    expect(await prepare(claimed)).toBeDefined()
  })

  test('is the same at every attempt, on every node: id, date, boundary, trace and signature', async () => {
    await addKey()
    const claimed = await accepted('Hello', [every])
    const first = bytesOf(await prepare(claimed))
    expect(bytesOf(await prepare({ ...claimed, attempt: 7, epoch: 9, token: '8' })).equals(first)).toBe(true)
    const head = first.toString('latin1').split('\r\n\r\n', 1)[0] ?? ''
    expect(head).toMatch(new RegExp(`^Received: by node\\.test with HTTP\\r\\n\\tid ${claimed.id};`))
    expect(head).toMatch(/^DKIM-Signature: /m)
    expect(head).toContain(`Message-ID: <${claimed.id}@`)
  })

  test('is the same on either side of a new DKIM key: the key of its acceptance signs it', async () => {
    await addKey()
    const node = makePreparer(world.db, vault)
    const claimed = await accepted('Hello')
    const first = bytesOf(await node.prepare(claimed))
    expect(selectorOf(first)).toBe('s1')
    await switchKey('s2')
    // On a node that knew the domain before the switch, and on one that did not.
    for (const each of [node, makePreparer(world.db, vault)])
      expect(bytesOf(await each.prepare(claimed)).equals(first)).toBe(true)
    // Between the switch and the time by which every node knows of it, all of them go by the old key; then by the new one.
    const at = (ms: number) => ({ ...claimed, createdAt: new Date(Date.now() + ms) })
    for (const each of [node, makePreparer(world.db, vault)])
      expect(selectorOf(bytesOf(await each.prepare(at(limits.dkimKeysKeptMs))))).toBe('s1')
    expect(selectorOf(bytesOf(await prepare(at(3 * limits.dkimKeysKeptMs))))).toBe('s2')
  })

  // It was parsed anew each minute, and what OpenSSL keeps with a key begun anew: of many domains with little mail, most of what their mail costs.
  test('is signed with a key that is opened once, for as long as it is the one that is sealed', async () => {
    await addKey()
    const claimed = await accepted('Hello')
    let [opens, laterMs] = [0, 0]
    const counting = { ...vault, open: (...sealed: Parameters<typeof vault.open>) => (opens++, vault.open(...sealed)) }
    const now = performance.now.bind(performance)
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + laterMs)
    try {
      const node = makePreparer(world.db, counting)
      const aMinuteLater = async () => {
        opens = 0
        laterMs += limits.dkimKeysKeptMs
        return selectorOf(bytesOf(await node.prepare(claimed)))
      }
      const first = bytesOf(await node.prepare(claimed))
      expect(await aMinuteLater()).toBe('s1')
      expect(opens).toBe(0)
      const name = await world.value<string>('select name from domains where id = $1', [sender.domainId])
      await world.db.run('update dkim_key_pairs set private_key_sealed = $2 where domain_id = $1', [
        sender.domainId,
        vault.seal(pem, sealedAs.dkimKey(sender.workspaceId, name)),
      ])
      expect(await aMinuteLater()).toBe('s1')
      expect(opens).toBe(1)
      expect(bytesOf(await node.prepare(claimed)).equals(first)).toBe(true)
      await world.db.run('delete from dkim_key_pairs where domain_id = $1', [sender.domainId])
      await expect(aMinuteLater()).rejects.toThrow('has no DKIM key')
    } finally {
      clock.mockRestore()
    }
  })

  test('with a key of its time that is gone, or was replaced long ago, it is signed with one that can be verified', async () => {
    await addKey()
    const claimed = await accepted('Hello')
    await switchKey('s2')
    await world.db.run(
      `update dkim_key_pairs set retired_at = app_now() - interval '8 days' where domain_id = $1 and selector = 's1'`,
      [sender.domainId],
    )
    expect(selectorOf(bytesOf(await prepare(claimed)))).toBe('s2')
    await switchKey('s3')
    expect(selectorOf(bytesOf(await prepare(claimed)))).toBe('s2')
    await world.db.run(`delete from dkim_key_pairs where domain_id = $1 and selector = 's2'`, [sender.domainId])
    expect(selectorOf(bytesOf(await prepare(claimed)))).toBe('s3')
  })

  test('with an Ed25519 key of its time it has a second signature, the same at every attempt, and each passes by its own record', async () => {
    const domain = await world.value<string>('select name from domains where id = $1', [sender.domainId])
    const pairs = { rsa: await generateDkimKey(), edwards: await generateDkimKey('ed25519-sha256') }
    const seal = (text: string) => vault.seal(text, sealedAs.dkimKey(sender.workspaceId, domain))
    const rsa = { privateKeyPem: pairs.rsa.privateKeyPem, record: dkimRecord(pairs.rsa.publicKeyBase64) }
    await addKey(() => seal(rsa.privateKeyPem))
    const early = await accepted('Hello')
    await switchKey('e1', 'ed25519-sha256', pairs.edwards.privateKeyPem)
    const value = dkimRecord(pairs.edwards.publicKeyBase64, 'ed25519-sha256')
    const records = [
      { type: 'TXT', name: `s1._domainkey.${domain}`, value: rsa.record },
      { type: 'TXT', name: `e1._domainkey.${domain}`, value },
    ]
    const node = makePreparer(world.db, vault)
    const begun = Date.now()
    const at = (minutes: number) => ({ ...early, createdAt: new Date(begun + minutes * 60_000) })
    const selectorsAt = async (minutes: number) => selectorsOf(bytesOf(await prepare(at(minutes))))
    for (const each of [early, at(1)]) expect(selectorsOf(bytesOf(await node.prepare(each)))).toEqual(['s1'])
    const later = at(3)
    const first = bytesOf(await node.prepare(later))
    expect(selectorsOf(first)).toEqual(['s1', 'e1'])
    expect(await dkimVerdicts(first, records)).toEqual([`pass ${domain}`, `pass ${domain}`])
    for (const one of records)
      expect((await dkimVerdicts(first, [one])).toSorted()).toEqual([`neutral ${domain}`, `pass ${domain}`])
    // And on the other side of new keys of both algorithms, and of the end of this one.
    await world.setClock(new Date(begun + 6 * 60_000).toISOString())
    await switchKey('s2')
    await switchKey('e2', 'ed25519-sha256', pairs.edwards.privateKeyPem)
    for (const each of [node, makePreparer(world.db, vault)])
      expect(bytesOf(await each.prepare(later)).equals(first)).toBe(true)
    expect([await selectorsAt(7), await selectorsAt(9)]).toEqual([
      ['s1', 'e1'],
      ['s2', 'e2'],
    ])
    await endEd25519(world.db, sender.workspaceId, sender.domainId)
    expect(bytesOf(await prepare(later)).equals(first)).toBe(true)
    expect([await selectorsAt(0), await selectorsAt(7), await selectorsAt(9)]).toEqual([['s1'], ['s1', 'e1'], ['s2']])
  })

  test('an Ed25519 key that is gone or cannot be opened costs its signature, and no mail', async () => {
    await addKey()
    const claimed = await accepted('Hello')
    await switchKey('e1', 'ed25519-sha256', 'no key')
    const later = { ...claimed, createdAt: new Date(Date.now() + 3 * limits.dkimKeysKeptMs) }
    expect(selectorsOf(bytesOf(await prepare(later)))).toEqual(['s1'])
    await suspendEd25519(world.db, sender.workspaceId, sender.domainId, ['e1'])
    expect(selectorsOf(bytesOf(await prepare(later)))).toEqual(['s1'])
  })

  test('the return path is a token of ours, which stands in the signed header too', async () => {
    await addKey()
    const claimed = await accepted('Hello')
    const prepared = await prepare(claimed)
    const key = await makeReturnPathKeys(world.db, vault).at(claimed.createdAt)
    const token = makeToken(key, claimed.id, claimed.workspaceId)
    expect(prepared).toMatchObject({ token, envelopeFrom: `${token}@node.test` })
    const [head = ''] = bytesOf(prepared).toString('latin1').split('\r\n\r\n', 1)
    expect(head).toContain(`\r\nX-Posthorn-Token: ${token}`)
    expect(head.replaceAll('\r\n ', '')).toMatch(/; h=[^;]*x-posthorn-token/i)
  })

  // RFC 9477 (complaints), BIMI and RFC 8058 (unsubscribing) count for nothing unless they are signed; the others are RFC 6376's advice (5.4.1), and Gmail's feedback.
  test('what a receiver acts upon is signed in a submitted mail, and what is not there is not named', async () => {
    await addKey()
    const acted =
      'Sender In-Reply-To References List-Id List-Help List-Subscribe List-Unsubscribe List-Unsubscribe-Post List-Post List-Owner List-Archive Feedback-ID CFBL-Address CFBL-Feedback-ID BIMI-Selector'
    const signedOf = async (names: string) => {
      const added = names.split(' ').filter(Boolean)
      const head = ['From: a@b.example', 'To: ann@example.org', 'Subject: x', ...added.map((name) => `${name}: x`)]
      const bodyText = `${head.join('\r\n')}\r\n\r\nHello.\r\n`
      const prepared = await prepare({ ...(await accepted('Hello')), source: 'smtp', bodyText })
      const signed = /; h=([^;]*)/i.exec(bytesOf(prepared).toString('latin1').replaceAll('\r\n ', ''))?.[1]
      return signed?.split(':') ?? []
    }
    const without = await signedOf('')
    const more = (await signedOf(acted)).filter((name) => !without.includes(name))
    expect(more.toSorted()).toEqual(acted.toLowerCase().split(' ').toSorted())
  })

  test("a domain's own return path host is used once it is verified, and a new key from its time on", async () => {
    await addKey()
    await world.db.run(`update domains set return_path_host = 'bounces.shop.example' where id = $1`, [sender.domainId])
    const claimed = await accepted('Hello')
    const before = await prepare(claimed)
    expect(before?.envelopeFrom).toMatch(/^ba[a-z2-7]{42}@bounces\.shop\.example$/)
    const { since } = await rotateReturnPathKey(world.db)
    expect((await prepare(claimed))?.envelopeFrom).toBe(before?.envelopeFrom)
    const later = await prepare({ ...claimed, createdAt: since })
    expect(later?.envelopeFrom).toMatch(/^bb[a-z2-7]{42}@bounces\.shop\.example$/)
    await world.db.run(`delete from installation where name = 'return_path_keys'`)
  })

  test('an address beyond ASCII asks the next host for SMTPUTF8', async () => {
    await addKey()
    expect(await prepare(await accepted('Hello', [], 'änne@example.org'))).toMatchObject({ needsSmtputf8: true })
    expect(await prepare(await accepted('Hello', [], 'anne@bücher.example'))).toMatchObject({ needsSmtputf8: false })
  })
})

describe('what cannot be prepared', () => {
  test('content that is gone, the text or one file, is no mail at all', async () => {
    await addKey()
    const [text, file] = [
      await accepted('x'.repeat(100_000)),
      await accepted('Hello', [Buffer.from('a'), Buffer.from('b')]),
    ]
    await world.db.run('delete from blobs where id = $1', [text.bodyBlob])
    await world.db.run(
      'delete from blobs where id = (select blob_id from attachments where message_id = $1 and position = 1)',
      [file.id],
    )
    expect([await prepare(text), await prepare(file)]).toEqual([undefined, undefined])
  })

  test.each([
    ['a domain without a key', async () => undefined, /has no DKIM key/],
    ['a key that was sealed for another place', () => addKey(() => vault.seal(pem, 'dkim:elsewhere')), /./],
    [
      'a key that is none',
      () => addKey((name) => vault.seal('no key', sealedAs.dkimKey(sender.workspaceId, name))),
      /./,
    ],
  ])('%s is a fault, and heals when the key does', async (_, wrong, words) => {
    await wrong()
    const claimed = await accepted('Hello')
    const preparer = makePreparer(world.db, vault)
    const error = await preparer.prepare(claimed).catch((thrown: unknown) => thrown)
    expect(String(error)).toMatch(words)
    expect(String(error)).not.toContain('PRIVATE')
    await world.db.run('delete from dkim_key_pairs where workspace_id = $1', [sender.workspaceId])
    await addKey()
    expect(await preparer.prepare(claimed)).toMatchObject({ recipient: { text: claimed.recipient } })
  })

  test('a fault of one does not hold up the others, however many signatures are under way', async () => {
    await addKey()
    const claimed = await accepted('Hello')
    const preparer = makePreparer(world.db, vault)
    const broken = { ...claimed, domainId: world.nextId() as string }
    const ends = await Promise.allSettled(
      Array.from({ length: 4 * limits.preparingAtOnceMax }, (_, at) =>
        preparer.prepare(at % 2 === 0 ? broken : claimed),
      ),
    )
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(2 * limits.preparingAtOnceMax)
  })

  test('nobody whose content came with the claim waits behind those whose content must be fetched, however many they are', async () => {
    await addKey()
    const [small, withFile] = [await accepted('Hello'), await accepted('Hello', [Buffer.from('a file')])]
    const preparer = makePreparer(world.db, vault)
    await preparer.prepare(small) // from now on the keys are known
    const holder = await world.holding('lock table attachments in access exclusive mode')
    let fetched = 0
    const fetching = Array.from({ length: limits.preparingAtOnceMax }, () =>
      preparer.prepare(withFile).finally(() => fetched++),
    )
    expect(await preparer.prepare(small)).toBeDefined()
    expect(fetched).toBe(0)
    await holder.query('rollback')
    expect(await Promise.all(fetching)).not.toContain(undefined)
  })
})
