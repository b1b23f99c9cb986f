// The receiver is the judge of every fault test, so its own words are tried here, each behaviour over a real socket.
import { createHash } from 'node:crypto'
import { createTransport } from 'nodemailer'
import { afterAll, expect, test } from 'vitest'
import { parseDialogue, play } from '../dialogues/dialogue.ts'
import { certificateFor } from './certificates.ts'
import { behaviours } from './receiver.ts'
import { startReceiver } from './receiver-process.ts'

const receiver = await startReceiver({ content: true })
afterAll(() => receiver.stop())

const follows = (text: string) => play(parseDialogue(text), { port: receiver.port, ca: '', taken: [], bytewise: false })
const upToRcpt = (to: string) =>
  `S: 220 *\nC: HELO c\nS: 250-*\nS: 250-*\nS: 250-*\nS: 250-*\nS: 250 *\nC: MAIL FROM:<a@x>\nS: 250 *\nC: RCPT TO:<${to}@y>\n`
const upToData = (to: string) => `${upToRcpt(to)}S: 250 *\nC: DATA\nS: 354 *\n`
const upToDot = (to: string) => `${upToData(to)}C: Message-ID: <1@x>\nC:\nC: ..text\nC: .\n`

/** What stands in the ledger for a recipient. */
const outcomes = async (to: string) =>
  (await receiver.ledger()).filter((line) => line.to.includes(`${to}@y`)).map((line) => line.outcome)

/** Behaviour, outcome in the ledger, and what follows the dot. */
const afterTheDot = [
  ['ok+1', '250', 'S: 250 2.0.0 *'],
  ['anybody', '250', 'S: 250 2.0.0 *'],
  ['eod-451', '451', 'S: 451 *'],
  ['eod-550', '550', 'S: 550 *'],
  ['close-after-dot', 'none', 'X:'],
  ['garbage-after-dot', 'none', 'S: fine, thanks'],
  ['mixed-after-dot', 'none', 'S: 250-*\nS: 451 *'],
  ['ok-then-421', '250', 'S: 250 *\nS: 421 *\nX:'],
  ['slow-eod-5ms', '250', 'S: 250 *'],
  ['reset-after-dot', 'none', 'X:'],
  ['hang-after-dot', 'none', ''],
] as const
/** Behaviour, and the conversation that ends before the dot. */
const beforeTheDot = [
  ['reject-rcpt-550', (to: string) => `${upToRcpt(to)}S: 550 5.1.1 *\nC: DATA\nS: 554 *`],
  ['close-at-rcpt', (to: string) => `${upToRcpt(to)}X:`],
  ['421-at-rcpt', (to: string) => `${upToRcpt(to)}S: 421 *\nX:`],
  ['reject-data-451', (to: string) => `${upToRcpt(to)}S: 250 *\nC: DATA\nS: 451 *`],
  ['close-mid-body', (to: string) => `${upToData(to)}C> half\nX:`],
  ['early-451', (to: string) => `${upToData(to)}C> half\nS: 451 *\nX:`],
] as const

test.each(afterTheDot)('%s: the dot is in the ledger as %s, then the answer', async (to, outcome, answer) => {
  await follows(`${upToDot(to)}${answer}`)
  expect(await outcomes(to)).toEqual([outcome])
})

test.each(beforeTheDot)('%s: nothing is in the ledger', async (to, dialogue) => {
  await follows(dialogue(to))
  expect(await outcomes(to)).toEqual([])
})

test('early-250: a 250 in the middle of content is not the final one', async () => {
  await follows(`${upToData('early-250')}C: half\nS: 250 *\nC: .\nS: 250 *`)
  expect(await outcomes('early-250')).toEqual(['250'])
})

test('deferred-N and eod-451-N defer N times and then accept', async () => {
  for (const answer of ['S: 451 4.7.1 *', 'S: 451 4.7.1 *', 'S: 250 *'])
    await follows(`${upToRcpt('deferred-2+a')}${answer}`)
  for (const answer of ['S: 451 *', 'S: 250 *']) await follows(`${upToDot('eod-451-1')}${answer}`)
  expect(await outcomes('eod-451-1')).toEqual(['451', '250'])
})

test('every behaviour of the table is tried here', () => {
  const tried = [...afterTheDot, ...beforeTheDot].map(([name]) =>
    name.replace(/\+.*|\d+(?=ms)/g, (n) => (n[0] === '+' ? '' : 'N')),
  )
  const alone = ['anybody', 'early-250', 'deferred-N', 'eod-451-N']
  expect(new Set([...tried, ...alone])).toEqual(new Set([...Object.keys(behaviours), 'anybody']))
})

test('the ledger says what came, un-stuffed', async () => {
  await follows(`${upToDot('ok+whole')}S: 250 *`)
  const [line] = (await receiver.ledger()).filter(({ to }) => to.includes('ok+whole@y'))
  const content = 'Message-ID: <1@x>\r\n\r\n.text\r\n'
  const sha256 = createHash('sha256').update(content).digest('hex')
  expect(line).toMatchObject({ from: 'a@x', messageId: '<1@x>', content, sha256, bytes: content.length, tls: false })
})

test('with a certificate it speaks TLS to a real client', async () => {
  const certificate = certificateFor()
  const secure = await startReceiver({ tls: certificate })
  const transport = createTransport({
    host: 'localhost',
    port: secure.port,
    requireTLS: true,
    tls: { ca: certificate.ca },
  })
  await transport.sendMail({ from: 'a@x', to: 'ok@y', text: 'hello' })
  transport.close()
  expect(await secure.waitFor(1)).toMatchObject([{ tls: true, outcome: '250' }])
  await secure.stop()
})

test('held at a position it waits to be released, and what it wrote outlives it', async () => {
  const held = await startReceiver({ hold: 'eod' })
  const conversation = play(parseDialogue(`${upToDot('ok')}X:`), {
    port: held.port,
    ca: '',
    taken: [],
    bytewise: false,
  })
  expect(await held.reached('rcpt')).toMatchObject({ position: 'rcpt', connection: 1, to: 'ok@y' })
  expect(await held.reached('eod')).toMatchObject({ to: ['ok@y'] })
  expect(await held.waitFor(1)).toHaveLength(1)
  await held.kill()
  await conversation
  expect(await held.ledger()).toHaveLength(1)
  await held.stop()

  const released = await startReceiver({ hold: 'data' })
  const second = play(parseDialogue(`${upToDot('ok')}S: 250 *`), {
    port: released.port,
    ca: '',
    taken: [],
    bytewise: false,
  })
  await released.reached('data')
  expect(await released.ledger()).toEqual([])
  released.release()
  await second
  expect(await released.waitFor(1)).toHaveLength(1)
  await released.stop()
})

test('whoever waits for what does not come is told', async () => {
  const idle = await startReceiver()
  await expect(idle.waitFor(1, 20)).rejects.toThrow('did not come to 1 lines')
  const waiting = idle.waitFor(1)
  const told = expect(waiting).rejects.toThrow('ended before')
  await idle.kill()
  await told
  await idle.stop()
})
