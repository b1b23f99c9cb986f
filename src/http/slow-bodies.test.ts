// Bodies that are held back, the whole way over real sockets: nobody's stand before anybody else's request (attacks Q7 and Q13).
import { connect, type AddressInfo, type Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { buildApp } from './app.ts'
import { optionsWith, principal, validBody } from './face.test-kit.ts'
import { officeWorld } from './office.test-kit.ts'

const cleanups: (() => unknown)[] = []
beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
  vi.useRealTimers()
})

const patiently = { timeout: 60_000 }

/** Where connections are made, and when all that they have said has come. */
async function listening(app: FastifyInstance) {
  const theirs: Socket[] = []
  app.server.on('connection', (socket: Socket) => theirs.push(socket))
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  let sent = 0
  /** A connection from this address of the machine, and all that it hears. */
  const dial = (localAddress = '127.0.0.1') => {
    const socket = connect({ port, host: '127.0.0.1', localAddress })
    cleanups.push(() => socket.destroy())
    socket.on('error', () => undefined)
    const line = { status: 0 }
    const status = new Promise<number>((resolve) =>
      socket.once('data', (chunk: Buffer) => resolve((line.status = Number(chunk.toString('latin1').slice(9, 12))))),
    )
    return {
      line,
      /** Of the first answer. */
      status,
      say: (text: string) => {
        sent += text.length
        socket.write(text)
      },
    }
  }
  /** Until all that was said has come. */
  const come = () => expect.poll(() => theirs.reduce((sum, socket) => sum + socket.bytesRead, 0), patiently).toBe(sent)
  return { dial, come }
}
type Line = ReturnType<Awaited<ReturnType<typeof listening>>['dial']>
const second = (): void => void vi.advanceTimersByTime(1_000)
const head = (path: string, ...headers: string[]) =>
  [`POST /api/v1${path} HTTP/1.1`, 'Host: x', 'Content-Type: application/json', ...headers, '', ''].join('\r\n')
const refused = (lines: readonly Line[]) => lines.filter(({ line }) => line.status === 503)

test('however many sign-ins strangers begin and hold back, a person signs in over a slow line, and messages find their room', async () => {
  const office = await officeWorld()
  const { email, password } = await office.login()
  const shop = await office.sender()
  const key = await office.key(shop.workspaceId, 'mail.send')
  const { dial, come } = await listening(office.app)

  const most = limits.managementRequestBytesMax
  const many = Math.ceil(limits.largeRequestsOfWorkspaceBytesMax / most)
  const signIn = head('/session', 'X-Posthorn-Csrf: 1', `Content-Length: ${most}`)
  const strangers = Array.from({ length: many }, (_, n) => dial(`127.0.0.${10 + (n % 20)}`))
  for (const line of strangers) line.say(signIn + ' '.repeat(most / 2 + 1))
  await come()
  second()

  const body = JSON.stringify({ email, password })
  const person = dial()
  person.say(head('/session', 'X-Posthorn-Csrf: 1', `Content-Length: ${body.length}`) + body.slice(0, 20))
  const large = dial()
  large.say(
    head('/send', `Authorization: Bearer ${key}`, 'Expect: 100-continue', `Content-Length: ${limits.requestBytesMax}`),
  )
  await come()
  expect(await large.status).toBe(100)
  for (let n = 0; n < 5; n++) second()
  person.say(body.slice(20))
  expect(await person.status).toBe(200)
  // What they hold is bounded: those beyond were sent away.
  await expect
    .poll(() => refused(strangers).length, patiently)
    .toBeGreaterThanOrEqual(many - Math.floor(limits.slowRequestsBytesMax / most) - 1)
})

const json = JSON.stringify(validBody)
const keyOf = (name: string) => `ph_${name.padStart(43, 'k')}`
const send = (name: string, bytes: number, ...headers: string[]) =>
  head('/send', `Authorization: Bearer ${keyOf(name)}`, `Content-Length: ${bytes}`, ...headers)
/** Every key is of a workspace of its own. */
async function posthorn() {
  const app = buildApp(optionsWith({ authenticate: (key) => Promise.resolve({ ...principal, workspaceId: key as WorkspaceId }) })) // prettier-ignore
  cleanups.push(() => app.close())
  return listening(app)
}

test('while large uploads fill their room, small sends over slow lines go on: those of others, and of the same workspace', async () => {
  const { dial, come } = await posthorn()
  const bytes = 40 * 1024 * 1024
  const uploads = ['one', 'two'].map((name) => {
    const line = dial()
    line.say(send(name, bytes, 'Expect: 100-continue'))
    return line
  })
  for (const line of uploads) expect(await line.status).toBe(100)
  // What is left of the room, too.
  const rest = dial()
  rest.say(send('three', limits.largeRequestsBytesMax - 2 * bytes, 'Expect: 100-continue'))
  expect(await rest.status).toBe(100)

  const lines = ['one', 'four'].map((name) => {
    const line = dial()
    line.say(send(name, json.length) + json.slice(0, 20))
    return line
  })
  await come()
  for (let n = 0; n < 5; n++) second()
  for (const line of lines) line.say(json.slice(20))
  for (const line of lines) expect(await line.status).toBe(202)
})

test('small sends that one workspace holds back stand before nobody else’s, and are bounded', async () => {
  const { dial, come } = await posthorn()
  const most = limits.largeRequestBytes
  const many = 2 * Math.ceil(limits.slowRequestsBytesMax / most)
  const theirs = Array.from({ length: many }, () => dial())
  for (const line of theirs) line.say(send('one', most) + ' '.repeat(most - 1))
  const ours = dial()
  ours.say(send('two', most) + json + ' '.repeat(most - json.length - 1))
  await come()
  for (let n = 0; n < 5; n++) second()
  await expect.poll(() => refused(theirs).length, patiently).toBeGreaterThanOrEqual(many / 2)
  ours.say(' ')
  expect(await ours.status).toBe(202)
})
