// The scan as acceptance sees it, with a real clamd on a socket of its own, and with servers that are not what they should be. Whatever is not
// a whole verdict is "unavailable": never clean (attacks Q8 to Q10).
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { nestedZip, zipOf, zipped } from '../../test/world/archives.ts'
import { eicar, ownMalware, ownMalwareName, startClamd } from '../../test/world/clamd.ts'
import { limits } from '../config.ts'
import { clamdAt } from './clamd.ts'
import { makeScanner, type ScanFile, type Scanner, type ScanTimes } from './scan.ts'

const closings: (() => Promise<unknown>)[] = []
const clamd = await startClamd()
afterEach(async () => {
  for (const close of closings.splice(0).toReversed()) await close()
})
afterAll(() => clamd.stop())

/** Where the time is not what is looked at, a machine with much else to do changes no verdict. */
const unhurried: ScanTimes = { scanMs: 600_000, examineMs: 600_000 }
const scannerAt = (address: Parameters<typeof makeScanner>[0], times: ScanTimes = unhurried): Scanner => {
  const scanner = makeScanner(address, times)
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
const never = new AbortController().signal
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

  test('20 MiB pass, and many at once', { timeout: 360_000 }, async () => {
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
    expect(await clamdAt({ path: clamd.path }).scan(bomb, never)).toEqual({ clean: true })
    expect(await real().scan([file(bomb)])).toMatchObject({ kind: 'refused' })
  })

  test('who sends many files delays another by few', async () => {
    const engine = clamdAt({ path: clamd.path })
    const order: string[] = []
    const scan = async (owner: string) => {
      await engine.scan(Buffer.from(owner), never, owner)
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

  test('what could not be examined in time is no verdict, with or without an engine', async () => {
    const late = { scanMs: 600_000, examineMs: 0 }
    for (const scanner of [scannerAt({ path: clamd.path }, late), scannerAt(undefined, late)])
      expect(await scanner.scan([file(nestedZip(Buffer.from('clean'), 3))])).toEqual({
        kind: 'unavailable',
        reason: 'the examination took too long',
      })
  })

  test('killed, it cannot answer; started again, it can', { timeout: 180_000 }, async () => {
    const scanner = real()
    await clamd.kill()
    expect(await scanner.scan([file(Buffer.from('clean'))])).toMatchObject({ kind: 'unavailable' })
    // What our own check finds needs no engine.
    expect(await scanner.scan([file(eicar)])).toMatchObject({ kind: 'infected' })
    await clamd.start()
    expect(await scanner.scan([file(Buffer.from('clean'))])).toMatchObject({ kind: 'clean' })
  })

  test('its facts: version, and whether it takes streams of our size', { timeout: 180_000 }, async () => {
    expect(await real().facts()).toEqual({
      description: expect.stringContaining(clamd.path),
      engine: expect.stringMatching(/^ClamAV/),
    })
    const narrow = await startClamd({ StreamMaxLength: '5M' })
    closings.push(() => narrow.stop())
    const scanner = scannerAt({ path: narrow.path })
    expect((await scanner.facts()).trouble).toMatch(/StreamMaxLength in clamd.conf must be at least 32M/)
    expect(await scanner.scan([file(Buffer.alloc(6_000_000))])).toMatchObject({ kind: 'unavailable' })
    expect(await scanner.scan([file(Buffer.alloc(1_000))])).toMatchObject({ kind: 'clean' })
  })
})

describe('whatever is no whole verdict is no verdict', () => {
  /** A server with this manner. */
  async function listening(manner: (socket: Socket) => void): Promise<{ host: string; port: number }> {
    const sockets = new Set<Socket>()
    const server: Server = createServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => undefined)
      manner(socket)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    closings.push(() => {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(resolve))
    })
    return { host: '127.0.0.1', port: (server.address() as AddressInfo).port }
  }
  const served = async (manner: (socket: Socket) => void): Promise<Scanner> => scannerAt(await listening(manner))
  /** Says VERSION as it should, and everything else at the end of the stream, of which it knows the last bytes. */
  const answering = (reply: (last: Buffer, socket: Socket) => void) => (socket: Socket) => {
    let seen = Buffer.alloc(0)
    socket.on('data', (chunk: Buffer) => {
      seen = Buffer.concat([seen, chunk]).subarray(-64)
      if (seen.includes('zVERSION')) socket.end('ClamAV 9.9.9/27000/Mon Nov 16 09:30:00 2026\0')
      else if (seen.subarray(-4).equals(Buffer.alloc(4))) reply(seen, socket)
    })
  }
  const saying = (reply: string) => answering((_, socket) => void socket.end(reply))

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
    // Without a zero, which would look to the server like the end of the stream.
    expect(await scanner.scan([file(Buffer.alloc(8_000_000, 'x'))])).toMatchObject({ kind: 'unavailable' })
  })

  test('malware that the engine names before it has the whole file is malware', async () => {
    const early = (socket: Socket) => void socket.pause().write('stream: Bad FOUND\0')
    expect(await clamdAt(await listening(early)).scan(Buffer.alloc(8_000_000, 'x'), never)).toEqual({
      clean: false,
      signature: 'Bad',
    })
  })

  test('an engine that breaks off without a word that reaches us: the facts name the setting that makes it do so', async () => {
    const scanner = await served((socket) => {
      socket.once('data', (chunk: Buffer) => {
        if (chunk.includes('zVERSION')) socket.end('ClamAV 9.9.9\0')
        else socket.resetAndDestroy()
      })
    })
    expect((await scanner.facts()).trouble).toMatch(
      /^the engine broke off in the middle of the stream \(\w+\); StreamMaxLength in clamd.conf must be at least 32M$/,
    )
  })

  test('a socket that is not there', async () => {
    const scanner = scannerAt({ path: '/nonexistent/clamd.sock' })
    expect(await scanner.scan([file(Buffer.alloc(1))])).toEqual({
      kind: 'unavailable',
      reason: 'the engine cannot be reached (ENOENT)',
    })
    expect((await scanner.facts()).trouble).toContain('ENOENT')
  })

  test('one that is infected decides, though the engine fails at the others', async () => {
    const scanner = await served(
      answering((last, socket) => void socket.end(`stream: ${last.includes('bad') ? 'Bad FOUND' : 'no ERROR'}\0`)),
    )
    const files = ['good', 'bad', 'good'].map((text) => file(Buffer.from(text)))
    expect(await scanner.scan(files)).toEqual({ kind: 'infected', position: 1, signature: 'Bad' })
  })

  test('the version is asked for once a minute; one that was not told, again at once', async () => {
    const replies = ['a/b\0', 'ClamAV 9/27000/Mon\0', 'ClamAV 9/27001/Tue\0']
    const engine = clamdAt(
      await listening((socket) => void socket.once('data', () => socket.end(replies.shift() ?? ''))),
    )
    await expect(engine.version(never)).rejects.toMatchObject({ name: 'EngineTrouble' })
    for (let n = 0; n < 2; n++) expect(await engine.version(never)).toMatchObject({ signatures: '27000 (Mon)' })
    const now = performance.now.bind(performance)
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + limits.clamdVersionMs)
    expect(await engine.version(never)).toMatchObject({ signatures: '27001 (Tue)' })
    clock.mockRestore()
  })

  test('whoever shares the question for the version does not share the time of the one who asked', async () => {
    const asked = Promise.withResolvers<void>()
    let isFirst = true
    const engine = clamdAt(
      await listening(
        (socket) =>
          void socket.once('data', () => {
            if (!isFirst) return void socket.end('ClamAV 9/27000/Mon\0')
            isFirst = false
            asked.resolve()
          }),
      ),
    )
    const first = new AbortController()
    const answers = [first.signal, never, never].map((signal) => engine.version(signal))
    await asked.promise
    first.abort()
    const [late, ...others] = await Promise.allSettled(answers)
    expect(late?.status).toBe('rejected')
    for (const each of others) expect(each).toMatchObject({ status: 'fulfilled', value: { engine: 'ClamAV 9' } })
  })

  test('when the time is over before the engine is asked, it is not asked', async () => {
    const engine = clamdAt(await listening(saying('stream: OK\0')))
    const over = AbortSignal.abort()
    await expect(engine.version(over)).rejects.toMatchObject({ name: 'EngineTrouble' })
    await expect(engine.scan(Buffer.from('x'), over)).rejects.toMatchObject({ name: 'EngineTrouble' })
  })

  test('of words that are no verdict as much is told as a terminal bears', async () => {
    const engine = clamdAt(await listening(saying(`\u001b${'x'.repeat(200)}\0`)))
    await expect(engine.scan(Buffer.from('x'), never)).rejects.toThrow(`the engine says "?${'x'.repeat(99)}"`)
  })

  test('silence: nobody waits longer than the limit', async () => {
    const silent = await listening((socket) => void socket.resume())
    const scanner = scannerAt(silent, { scanMs: 1_000, examineMs: 900 })
    const asked = Array.from({ length: limits.clamdStreamsMax + 2 }, () => scanner.scan([file(Buffer.from('x'))]))
    for (const verdict of await Promise.all(asked)) expect(verdict.kind).toBe('unavailable')
  })

  test('a verdict that comes too late is none, and the turn comes back', async () => {
    const waiting: Socket[] = []
    const allWait = Promise.withResolvers<void>()
    let isLate = true
    const engine = clamdAt(
      await listening(
        answering((_, socket) => {
          if (!isLate) return void socket.end('stream: OK\0')
          if (waiting.push(socket) === limits.clamdStreamsMax) allWait.resolve()
        }),
      ),
    )
    const end = new AbortController()
    const asked = Array.from({ length: limits.clamdStreamsMax + 2 }, () => engine.scan(Buffer.from('x'), end.signal))
    await allWait.promise
    end.abort()
    for (const socket of waiting) socket.end('stream: OK\0')
    for (const each of await Promise.allSettled(asked))
      expect(each).toMatchObject({ status: 'rejected', reason: { name: 'EngineTrouble' } })
    isLate = false
    expect(await engine.scan(Buffer.from('x'), never)).toEqual({ clean: true })
  })

  test('the engine gets every byte, in pieces of a bearable size, and then the end', async () => {
    const came = Promise.withResolvers<{ content: Buffer; pieces: number[] }>()
    const place = await listening((socket) => {
      let seen = Buffer.alloc(0)
      socket.on('data', (chunk: Buffer) => {
        seen = Buffer.concat([seen, chunk])
        const pieces: Buffer[] = []
        let at = 'zINSTREAM\0'.length
        for (; at + 4 <= seen.length;) {
          const length = seen.readUInt32BE(at)
          if (length === 0) {
            came.resolve({ content: Buffer.concat(pieces), pieces: pieces.map((piece) => piece.length) })
            return void socket.end('stream: OK\0')
          }
          pieces.push(seen.subarray(at + 4, at + 4 + length))
          at += 4 + length
        }
      })
    })
    const bytes = Buffer.from(Array.from({ length: 2 * limits.clamdChunkBytes + 3 }, (_, at) => (at % 251) + 1))
    expect(await clamdAt(place).scan(bytes, never)).toEqual({ clean: true })
    const { content, pieces } = await came.promise
    expect(content.equals(bytes)).toBe(true)
    expect(pieces).toEqual([limits.clamdChunkBytes, limits.clamdChunkBytes, 3])
  })

  /** The next one two turns of the loop later: in one of them the client, which is in this process, has read the one before. */
  const inPieces = (...pieces: string[]) =>
    answering((_, socket) => {
      socket.setNoDelay(true)
      const say = (at: number): void => {
        if (socket.destroyed || at >= pieces.length) return
        socket.write(pieces[at] ?? '', () => setImmediate(() => setImmediate(() => say(at + 1))))
      }
      say(0)
    })

  test('a verdict in pieces is read as one: what came before it counts as well', async () => {
    const engine = async (...pieces: string[]) => clamdAt(await listening(inPieces(...pieces)))
    expect(await (await engine('str', 'eam: OK', '\0')).scan(Buffer.from('x'), never)).toEqual({ clean: true })
    await expect((await engine('bad ', 'stream: OK\0')).scan(Buffer.from('x'), never)).rejects.toThrow('bad stream: OK')
  })

  test('a reply without an end is not waited for, in however small pieces it comes', async () => {
    const endless = answering((_, socket) => {
      const more = (): void => void (socket.destroyed || socket.write('x'.repeat(500), () => setImmediate(more)))
      more()
    })
    await expect(clamdAt(await listening(endless)).scan(Buffer.from('x'), never)).rejects.toThrow('has no end')
  })

  test('no connection is left open, whatever the engine does with its end', async () => {
    const closed = Promise.withResolvers<void>()
    const engine = clamdAt(
      await listening((socket) => {
        answering((_, to) => void to.write('stream: OK\0'))(socket)
        socket.once('close', () => closed.resolve())
      }),
    )
    expect(await engine.scan(Buffer.from('x'), never)).toEqual({ clean: true })
    await closed.promise
  })

  test('never more streams at once than may be; who has left the line takes nobody’s turn, and waits no longer than it said', async () => {
    const open: Socket[] = []
    let wake = (): void => undefined
    let most = 0
    const place = await listening(
      answering((_, socket) => {
        most = Math.max(most, open.push(socket))
        wake()
      }),
    )
    const engine = clamdAt(place)
    const openAre = async (count: number): Promise<void> => {
      while (open.length < count) await new Promise<void>((resolve) => (wake = resolve))
    }
    const scan = (signal = never) => engine.scan(Buffer.from('x'), signal)
    const first = Array.from({ length: limits.clamdStreamsMax }, () => scan())
    await openAre(limits.clamdStreamsMax)
    const end = new AbortController()
    const leaving = Array.from({ length: limits.clamdStreamsMax }, () => scan(end.signal))
    const last = Array.from({ length: 2 * limits.clamdStreamsMax }, () => scan())
    end.abort()
    // Nobody has given a turn back yet.
    for (const each of await Promise.allSettled([...leaving, scan(end.signal)]))
      expect(each).toMatchObject({ status: 'rejected', reason: { name: 'EngineTrouble' } })
    for (let n = 0; n < 4; n++) {
      await openAre(limits.clamdStreamsMax)
      // Who comes when turns have been handed on stands behind the others: what would be begun now is there before the last of these answers.
      if (n === 1) {
        last.push(...Array.from({ length: limits.clamdStreamsMax }, () => scan()))
        for (let asked = 0; asked < 10; asked++) await clamdAt(place).version(never)
      }
      for (const socket of open.splice(0)) socket.end('stream: OK\0')
    }
    for (const verdict of await Promise.all([...first, ...last])) expect(verdict).toEqual({ clean: true })
    expect(most).toBe(limits.clamdStreamsMax)
  })
})
