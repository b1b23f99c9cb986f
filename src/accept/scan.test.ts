// The scan as acceptance sees it, with a real clamd on a socket of its own, and with servers that are not what they should be. Whatever is not
// a whole verdict is "unavailable": never clean (attacks Q8 to Q10).
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { nestedZip, zipOf, zipped } from '../../test/world/archives.ts'
import { eicar, ownMalware, ownMalwareName, startClamd, type Clamd } from '../../test/world/clamd.ts'
import { limits } from '../config.ts'
import { clamdAt } from './clamd.ts'
import { makeScanner, type ScanFile, type Scanner } from './scan.ts'

let clamd: Clamd
const closings: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  clamd = await startClamd()
})
afterEach(async () => {
  for (const close of closings.splice(0).toReversed()) await close()
})
afterAll(() => clamd?.stop())

const scannerAt = (address: Parameters<typeof makeScanner>[0]): Scanner => {
  const scanner = makeScanner(address)
  closings.push(() => scanner.stop())
  return scanner
}
const real = () => scannerAt({ path: clamd.path })
const file = (bytes: Buffer, filename = 'a.bin', contentType = 'application/octet-stream'): ScanFile => ({
  filename,
  contentType,
  bytes,
})
const mailWith = (bytes: Buffer): Buffer =>
  Buffer.from(
    `Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Transfer-Encoding: base64\r\n\r\n${bytes.toString('base64')}\r\n--b--\r\n`,
  )
const byEngine = { kind: 'infected', position: 0, signature: ownMalwareName }

describe('a real clamd', () => {
  const infected: [string, ScanFile][] = [
    ['plain', file(ownMalware)],
    ['zipped', file(zipped(ownMalware))],
    ['zipped twice', file(nestedZip(ownMalware, 2))],
    ['gzip', file(gzipSync(ownMalware))],
    ['in a submitted message', file(mailWith(ownMalware), 'message', 'message/rfc822')],
    ['in a message in a message', file(mailWith(mailWith(ownMalware)), 'message', 'message/rfc822')],
    [
      'where only a lenient reader looks',
      file(Buffer.from(`Subject: x\r\n\r\n${ownMalware.toString('base64')}\r\n`), 'm.eml'),
    ],
    ['at the end of a large file', file(Buffer.concat([Buffer.alloc(19_000_000, 'x'), ownMalware]))],
  ]
  test.each(infected)('malware that only the engine knows: %s', async (_, sent) => {
    expect(await real().scan([sent])).toEqual(byEngine)
  })

  test('the EICAR test file is found as well, and the file is named by its position', async () => {
    expect(await real().scan([file(Buffer.from('clean')), file(zipped(eicar))])).toMatchObject({
      kind: 'infected',
      position: 1,
    })
  })

  test('clean: the record says who looked', async () => {
    expect(await real().scan([file(Buffer.from('clean')), file(Buffer.alloc(0))])).toEqual({
      kind: 'clean',
      record: { verdict: 'clean', engine: expect.stringMatching(/^ClamAV \d+\.\d+\.\d+/) },
    })
  })

  test('20 MiB pass, and many at once', async () => {
    const scanner = real()
    const large = file(Buffer.alloc(limits.attachmentsBytesMax, 'x'))
    const all = [large, ...Array.from({ length: 30 }, (_, n) => file(n % 10 === 9 ? ownMalware : Buffer.from(`${n}`)))]
    const verdicts = await Promise.all(all.map((each) => scanner.scan([each])))
    expect(verdicts.map(({ kind }) => kind)).toEqual(
      all.map(({ bytes }) => (bytes === ownMalware ? 'infected' : 'clean')),
    )
  })

  test('a bomb that clamd calls clean is refused by our own limits', async () => {
    const bomb = zipped(Buffer.alloc(200_000_000))
    const signal = AbortSignal.timeout(20_000)
    expect(await clamdAt({ path: clamd.path }).scan(bomb, signal)).toEqual({ clean: true })
    expect(await real().scan([file(bomb)])).toMatchObject({ kind: 'refused' })
  })

  test('who sends many files delays another by few', async () => {
    const engine = clamdAt({ path: clamd.path })
    const signal = AbortSignal.timeout(8_000)
    const order: string[] = []
    const scan = async (owner: string) => {
      await engine.scan(Buffer.from(owner), signal, owner)
      order.push(owner)
    }
    await Promise.all([...Array.from({ length: 60 }, () => scan('many')), scan('one')])
    expect(order.indexOf('one')).toBeLessThan(3 * limits.clamdStreamsMax)
  })

  test('an encrypted archive is let through alike, with or without an engine (decision 0017)', async () => {
    const locked = file(zipOf([{ name: 'a.pdf', content: Buffer.alloc(100), encrypted: true }]))
    for (const scanner of [real(), scannerAt(undefined)])
      expect(await scanner.scan([locked])).toMatchObject({ kind: 'clean', record: { unexamined: ['encrypted'] } })
  })

  test('what lies across the pieces in which a file is copied is found without an engine, too', async () => {
    const bytes = Buffer.alloc(3 * 1024 * 1024, 'x')
    eicar.copy(bytes, 1024 * 1024 - 10)
    expect(await scannerAt(undefined).scan([file(bytes)])).toMatchObject({ kind: 'infected', position: 0 })
  })

  test('an examination that breaks off is no verdict, with or without an engine', async () => {
    for (const scanner of [real(), scannerAt(undefined)]) {
      const scan = scanner.scan([file(Buffer.alloc(20_000_000, 'x'))])
      await scanner.stop()
      expect(await scan).toMatchObject({ kind: 'unavailable' })
      expect(await scanner.scan([file(Buffer.from('clean'))])).toMatchObject({ kind: 'unavailable' })
    }
  })

  test('killed, it cannot answer; started again, it can', { timeout: 60_000 }, async () => {
    const scanner = real()
    await clamd.kill()
    expect(await scanner.scan([file(Buffer.from('clean'))])).toMatchObject({ kind: 'unavailable' })
    // What our own check finds needs no engine.
    expect(await scanner.scan([file(eicar)])).toMatchObject({ kind: 'infected' })
    await clamd.start()
    expect(await scanner.scan([file(Buffer.from('clean'))])).toMatchObject({ kind: 'clean' })
  })

  test('its facts: version, and whether it takes streams of our size', { timeout: 60_000 }, async () => {
    expect(await real().facts(true)).toEqual({
      description: expect.stringContaining(clamd.path),
      engine: expect.stringMatching(/^ClamAV/),
    })
    const narrow = await startClamd({ StreamMaxLength: '5M' })
    closings.push(() => narrow.stop())
    const scanner = scannerAt({ path: narrow.path })
    expect((await scanner.facts(true)).trouble).toMatch(/StreamMaxLength in clamd.conf must be at least 32M/)
    expect(await scanner.scan([file(Buffer.alloc(6_000_000))])).toMatchObject({ kind: 'unavailable' })
    expect(await scanner.scan([file(Buffer.alloc(1_000))])).toMatchObject({ kind: 'clean' })
  })
})

describe('whatever is no whole verdict is no verdict', () => {
  /** A server with this manner. */
  async function served(manner: (socket: Socket) => void): Promise<Scanner> {
    const sockets = new Set<Socket>()
    const server: Server = createServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => undefined)
      manner(socket)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const scanner = scannerAt({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })
    closings.push(() => {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(resolve))
    })
    return scanner
  }
  /** Says VERSION as it should, and everything else at the end of the stream. */
  const saying = (reply: string) => (socket: Socket) => {
    let seen = Buffer.alloc(0)
    socket.on('data', (chunk: Buffer) => {
      seen = Buffer.concat([seen, chunk])
      if (seen.includes('zVERSION')) socket.end('ClamAV 9.9.9/27000/Mon Nov 16 09:30:00 2026\0')
      else if (seen.subarray(-4).equals(Buffer.alloc(4))) socket.end(reply)
    })
  }

  test('what a right answer is', async () => {
    const scanner = await served(saying('stream: OK\0'))
    expect(await scanner.scan([file(Buffer.from('x'))])).toEqual({
      kind: 'clean',
      record: { verdict: 'clean', engine: 'ClamAV 9.9.9', signatures: '27000 (Mon Nov 16 09:30:00 2026)' },
    })
  })

  const manners: [string, (socket: Socket) => void][] = [
    ['an error', saying("stream: Can't allocate memory ERROR\0")],
    ['the size limit', saying('INSTREAM size limit exceeded. ERROR\0')],
    ['another word for clean', saying('stream: CLEAN\0')],
    ['clean and something else', saying('stream: OK and more\0')],
    ['no end', saying('stream: OK')],
    ['nothing', saying('')],
    ['another file', saying('/etc/passwd: OK\0')],
    ['lower case', saying('stream: ok\0')],
    ['too much', (socket) => void socket.write(Buffer.alloc(100_000, 'stream: OK '))],
    ['garbage', (socket) => void socket.end(Buffer.from([0xff, 0, 1, 2]))],
    ['closes at once', (socket) => void socket.destroy()],
    ['killed in the middle of the stream', (socket) => void socket.once('data', () => socket.resetAndDestroy())],
    ['clean before it has the file', (socket) => void socket.pause().write('stream: OK\0')],
  ]
  test.each(manners)('%s', async (_, manner) => {
    const scanner = await served(manner)
    expect(await scanner.scan([file(Buffer.alloc(8_000_000))])).toMatchObject({ kind: 'unavailable' })
  })

  test('an engine that breaks off without a word that reaches us: the facts name the setting that makes it do so', async () => {
    const scanner = await served((socket) => {
      socket.once('data', (chunk: Buffer) => {
        if (chunk.includes('zVERSION')) socket.end('ClamAV 9.9.9\0')
        else socket.resetAndDestroy()
      })
    })
    expect((await scanner.facts(true)).trouble).toMatch(
      /^the engine broke off in the middle of the stream \(\w+\); StreamMaxLength in clamd.conf must be at least 32M$/,
    )
  })

  test('a socket that is not there', async () => {
    const scanner = scannerAt({ path: '/nonexistent/clamd.sock' })
    expect(await scanner.scan([file(Buffer.alloc(1))])).toEqual({
      kind: 'unavailable',
      reason: 'the engine cannot be reached (ENOENT)',
    })
    expect((await scanner.facts(true)).trouble).toContain('ENOENT')
  })

  test('silence: nobody waits longer than the limit, and the turn comes back', { timeout: 30_000 }, async () => {
    let quiet = true
    const scanner = await served((socket) => (quiet ? void socket.resume() : saying('stream: OK\0')(socket)))
    const began = performance.now()
    const asked = Array.from({ length: limits.clamdStreamsMax + 2 }, () => scanner.scan([file(Buffer.from('x'))]))
    for (const verdict of await Promise.all(asked)) expect(verdict.kind).toBe('unavailable')
    expect(performance.now() - began).toBeLessThan(limits.scanMs + 3_000)
    quiet = false
    expect(await scanner.scan([file(Buffer.from('x'))])).toMatchObject({ kind: 'clean' })
  })
})
