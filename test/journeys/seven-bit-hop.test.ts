// Mail with 8-bit content, handed in over SMTP, whose next host takes 7-bit content alone: it arrives all the same, says the same, and its
// signature holds over what arrived. Every attempt sends the same bytes. What cannot be said in 7 bits fails with the reason.
import { isAscii } from 'node:buffer'
import PostalMime from 'postal-mime'
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { dkimVerdicts } from '../world/dkim-verdict.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'
import { acceptedAs, makeSmtpLogin, submitterOf, type SmtpLogin } from '../world/submitter.ts'

let receiver: Receiver
let posthorn: Posthorn
let shop: JourneyWorkspace
let login: SmtpLogin
beforeAll(async () => {
  receiver = await ending(startReceiver, { content: true, sevenBit: true })
  posthorn = await ending(startPosthorn, {
    settings: { POSTHORN_ROUTE: `smtp://127.0.0.1:${receiver.port}`, POSTHORN_TIME_SCALE: '600' },
  })
  shop = await posthorn.workspace()
  login = await makeSmtpLogin(posthorn, shop)
})

const mailOf = (to: string, ...rest: string[]): string =>
  [`From: The Shop <${shop.address}>`, `To: ${to}`, 'Subject: Hello', 'MIME-Version: 1.0', ...rest, ''].join('\r\n')

/** The message's id, as the final 250 names it. */
async function submit(to: string, ...rest: string[]): Promise<string> {
  const envelope = { from: shop.address, to, use8BitMime: true }
  const { response } = await submitterOf(posthorn, login).sendMail({ envelope, raw: mailOf(to, ...rest) })
  return acceptedAs(response) ?? ''
}

/** All that came for an address, in order. */
async function arrived(to: string): Promise<{ content: string; sha256: string }[]> {
  const lines = (await receiver.ledger()).filter((line) => line.to.includes(to))
  return lines.map(({ content = '', sha256 }) => ({ content, sha256 }))
}

test('a nested mail arrives in 7 bits, decodes to what was submitted, and its signature holds; twice the same', async () => {
  const to = 'eod-451-1+nested@receiver.test'
  const file = Buffer.from(Array.from({ length: 128 }, (_, at) => at + 128)).toString('latin1')
  const parts = [
    ['Content-Type: multipart/mixed; boundary="b=_1"', 'Content-Transfer-Encoding: 8bit', '', 'vorab: ü', '--b=_1'],
    ['Content-Type: text/plain; charset=utf-8', 'Content-Transfer-Encoding: 8bit', '', 'Grüße aus Köln. ', '.', 'Ende'],
    ['--b=_1', 'Content-Type: message/rfc822', '', 'Subject: inside', 'Content-Type: text/plain; charset=utf-8'],
    ['Content-Transfer-Encoding: 8bit', '', 'Auch hier: schöne Grüße an alle', '--b=_1'],
    ['Content-Type: application/x-own; name="a.bin"', 'Content-Transfer-Encoding: binary', '', file, '--b=_1--'],
  ].flat()
  const { processingStatus } = await shop.settled(await submit(to, ...parts))
  expect(processingStatus).toBe('sent')
  const came = await arrived(to)
  expect(came.map(({ sha256 }) => sha256)).toEqual([came[0]?.sha256, came[0]?.sha256])
  const content = came[1]?.content ?? ''
  expect(isAscii(Buffer.from(content, 'latin1'))).toBe(true)
  expect(await dkimVerdicts(content, shop.records)).toEqual([`pass ${shop.address.split('@')[1]}`])

  const mail = await PostalMime.parse(Buffer.from(content, 'latin1'), { forceRfc822Attachments: true })
  expect(mail.text?.replaceAll('\r\n', '\n').trim()).toBe('Grüße aus Köln. \n.\nEnde')
  const [inner, own] = mail.attachments.map((each) => Buffer.from(each.content as ArrayBuffer))
  expect((await PostalMime.parse(inner ?? '')).text?.trim()).toBe('Auch hier: schöne Grüße an alle')
  // nodemailer sends the string as UTF-8: two octets for each of those characters.
  expect(own?.toString()).toBe(file)
})

test('a mail of several megabytes, too', async () => {
  const to = 'large@receiver.test'
  const text = 'Ein langer Text mit Umläuten wie ä, ö und ü, Zeile für Zeile.\r\n'.repeat(100_000)
  const head = ['Content-Type: text/plain; charset=utf-8', 'Content-Transfer-Encoding: 8bit', '']
  expect((await shop.settled(await submit(to, ...head, text))).processingStatus).toBe('sent')
  const [{ content } = { content: '' }] = await arrived(to)
  expect(isAscii(Buffer.from(content, 'latin1'))).toBe(true)
  expect(await dkimVerdicts(content, shop.records)).toEqual([`pass ${shop.address.split('@')[1]}`])
  const read = (await PostalMime.parse(content)).text ?? ''
  expect(read.replaceAll('\r\n', '\n').trimEnd() === text.replaceAll('\r\n', '\n').trimEnd()).toBe(true)
})

test('what cannot be said in 7 bits fails with the reason, and nothing is sent', async () => {
  const to = 'raw-field@receiver.test'
  const part = ['--b', 'Content-Type: text/plain; name="Grüße.txt"', '', 'x', '--b--']
  const id = await submit(to, 'Content-Type: multipart/mixed; boundary=b', '', ...part)
  expect((await shop.settled(id)).processingStatus).toBe('failed')
  const { events } = await posthorn.cli<{ events: { type: string; payload: object }[] }>('message', 'show', id)
  expect(JSON.stringify(events)).toContain('no_8bitmime')
  expect(await arrived(to)).toEqual([])
})
