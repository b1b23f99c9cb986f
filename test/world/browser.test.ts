import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { temporaryFolder } from './ending.ts'
import { inspect, startBrowser } from './browser.ts'

test('a look at a page finds what a person would miss: words, colours in either scheme, and what is cut off', async () => {
  const folder = temporaryFolder()
  const browser = await startBrowser('http://nobody.test')
  try {
    const page = await browser.person()
    await page.setContent(`<!doctype html><html lang="en"><title>Page</title>
      <style>
        html { color-scheme: light dark }
        @media (prefers-color-scheme: light) { .pale { color: #bbb } }
        @media (prefers-color-scheme: dark) { html { background: #111; color: #eee } .dim { color: #444 } }
        [role=group] { width: 300px; overflow-x: auto }
        td { white-space: nowrap }
      </style>
      <main><h1>Page</h1>
        <img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
        <p class="pale">Pale words</p><p class="dim">Dim words</p>
        <figure aria-label="curl" style="position: relative"><pre>curl</pre><button style="position: absolute; right: 0; top: 0">Copy</button></figure>
        <div role="group" aria-label="Mails" tabindex="0"><table><tr><td>${'wide '.repeat(100)}</td></tr></table></div>
      </main>`)
    const found = await inspect(page, folder, 'page')
    for (const wanted of [
      /^page \(dark\): image-alt: /,
      /^page \(dark\): color-contrast: .*Dim words/,
      /^page \(light\): color-contrast: .*Pale words/,
      /^page: on a phone one does not see all of Mails$/,
      /^page: on a tablet one does not see all of Mails$/,
      /^page: on a phone one does not see what the button covers of curl$/,
    ])
      expect(found).toContainEqual(expect.stringMatching(wanted))
    expect(found.filter((each) => /\((?:dark\).*Pale|light\).*Dim)/.test(each))).toEqual([])
  } finally {
    await browser.close()
  }
})

test('what must never happen in it is noted: a dialog, an error, a request to another origin, a complaint of the policy', async () => {
  const server = createServer((_, response) =>
    response
      .writeHead(200, { 'content-type': 'text/html', 'content-security-policy': "script-src 'nonce-ours'" })
      .end(
        `<script nonce="ours">alert('a dialog'); throw new Error('an error')</script><script>0</script><img src="http://other.test/">`,
      ),
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const browser = await startBrowser(origin)
  try {
    const page = await browser.person()
    await page.goto(origin)
    for (const wanted of [
      /: dialog: a dialog$/,
      /: error: an error$/,
      /: request to http:\/\/other\.test\/$/,
      /Content Security Policy/,
    ])
      await expect.poll(() => browser.incidents).toContainEqual(expect.stringMatching(wanted))
  } finally {
    await browser.close()
    server.close()
  }
})
