// Whoever has a token may send a mail of 40 MB with it: while its signatures are looked at, others get their turns.
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { makeReporterCheck } from './reporter.ts'

test('a large mail is verified piece by piece, with the event loop free in between', async () => {
  const signature =
    'DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.org; s=s; h=from; bh=AAAA; b=AAAA\r\n'
  const mail = Buffer.from(`${signature}From: a@example.org\r\n\r\n${' '.repeat(4_000_000)}\r\n`)
  const check = makeReporterCheck({ dnsServers: ['127.0.0.1:9'] })
  await check(mail.subarray(0, 1_000)) // loads the verifier
  const over = new AbortController()
  const verdict = check(mail).finally(() => over.abort())
  let turns = 0
  for (; !over.signal.aborted; turns++) await setImmediate()
  expect(await verdict).toBe('unproven')
  expect(turns).toBeGreaterThan(mail.length / 100_000)
})
