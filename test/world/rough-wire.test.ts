// The rough wire itself: what it does not end arrives as it was, and its book names exactly those of whom nobody knows.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { startRoughWire, type RoughWire, type RoughWireOptions } from './rough-wire.ts'

const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

const goOn = '354 go on\r\n'

/** Answers DATA and a final dot, and closes when the other side has. */
async function wireTo(answer: string, options: RoughWireOptions): Promise<RoughWire & { heard: () => string }> {
  let heard = ''
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', (octets) => {
      heard += octets.toString('latin1')
      if (heard.endsWith('DATA\r\n')) socket.write(goOn)
      if (heard.endsWith(dot)) socket.write(answer)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  ends.push(() => once(server.close(), 'close'))
  const wire = await startRoughWire((server.address() as AddressInfo).port, options)
  ends.push(() => wire.stop())
  return Object.assign(wire, { heard: () => heard })
}

const dot = '\r\n.\r\n'
const mail = ['MAIL FROM:<>\r\nRCPT TO:<ada@there.example>\r\nDATA\r\n', 'Subject: Hello\r\n\r\nHello', dot]

/** Says one mail; answers what came back to its dot, until the line ended or as much as was wanted. */
function said(wire: RoughWire, wanted: string): Promise<string> {
  const socket = connect({ port: wire.port, host: '127.0.0.1', noDelay: true })
  const [envelope = '', ...content] = mail
  let back = ''
  socket.write(envelope)
  return new Promise<string>((resolve) => {
    socket.on('error', () => undefined).on('close', () => resolve(back.slice(goOn.length)))
    socket.on('data', (octets) => {
      const before = back.length
      back += octets.toString('latin1')
      if (before < goOn.length && back.startsWith(goOn)) for (const part of content) socket.write(part)
      if (back.length >= goOn.length + wanted.length) socket.end()
    })
  })
}

const ok = '250 2.0.0 ok\r\n'
test.each(['stall', 'drip'] as const)('what is held up (%s) arrives as it was, in both directions', async (kind) => {
  for (const seed of [1, 2, 3]) {
    const wire = await wireTo(ok, { seed, chance: 1, kinds: [{ kind, weight: 1 }] })
    expect(await said(wire, ok)).toBe(ok)
    expect(wire.heard()).toBe(mail.join(''))
    expect(wire.befell.size).toBeGreaterThan(0)
    expect([...wire.unanswered]).toEqual([])
  }
})

test('whose dot has come and whose reply did not go back is in its book; who was torn before the dot is not', async () => {
  const seen = { before: 0, behind: 0 }
  for (let seed = 1; seed <= 60; seed++) {
    const wire = await wireTo(ok, { seed, chance: 0.5, kinds: [{ kind: 'cut', weight: 1 }] })
    const back = await said(wire, ok)
    const unanswered = wire.unanswered.has('ada@there.example')
    // Nobody is missing from it: a dot that the server has, and a client that does not know.
    if (wire.heard().endsWith(dot) && back !== ok) expect(unanswered).toBe(true)
    if (back === ok && wire.befell.size === 0) expect(unanswered).toBe(false)
    if (unanswered) seen.behind++
    else if (back === '') seen.before++
  }
  expect(Math.min(seen.before, seen.behind)).toBeGreaterThan(0)
})

test('a reply that is none, or none yet, is no answer; a smooth wire does nothing to anybody', async () => {
  for (const [answer, answered] of [
    ['250-2.0.0 more\r\n', false],
    ['250 2.0.0 o', false],
    ['fine\r\n', false],
    ['250-2.0.0 more\r\n451 4.3.0 not now\r\n', true],
  ] as const) {
    const wire = await wireTo(answer, { seed: 1, chance: 1 })
    wire.smooth()
    expect(await said(wire, answer)).toBe(answer)
    expect(wire.unanswered.size).toBe(answered ? 0 : 1)
  }
})
