// A person at a browser: Debian's Chromium without windows, and a note of everything that must never happen in it while strangers' words are shown: a dialog, a
// request to another origin, a complaint of the Content-Security-Policy, an error that nobody caught.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import axe, { type Result } from 'axe-core'
import { chromium, type BrowserContext, type Page } from 'playwright-core'

export interface TestBrowser {
  /** A person of their own: no cookie of anybody else; perhaps far away. */
  person(timezoneId?: string): Promise<Page>
  /** What must never happen and did, with the address where it did. */
  readonly incidents: readonly string[]
  close(): Promise<void>
}

const actionMs = 60_000

export async function startBrowser(origin: string, args: readonly string[] = []): Promise<TestBrowser> {
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium-headless-shell',
    args: ['--no-sandbox', ...args],
  })
  const incidents: string[] = []
  const contexts: BrowserContext[] = []
  return {
    incidents,
    person: async (timezoneId) => {
      const context = await browser.newContext({
        locale: 'en-GB',
        viewport: desktop,
        reducedMotion: 'reduce',
        ...(timezoneId !== undefined && { timezoneId }),
      })
      contexts.push(context)
      context.setDefaultTimeout(actionMs)
      const page = await context.newPage()
      const note = (what: string) => incidents.push(`${page.url()}: ${what}`)
      page.on('dialog', (dialog) => {
        note(`dialog: ${dialog.message()}`)
        void dialog.dismiss()
      })
      page.on('pageerror', (error) => note(`error: ${error.message}`))
      page.on('request', (request) => {
        const url = new URL(request.url())
        if (url.protocol.startsWith('http') && url.origin !== origin) note(`request to ${request.url()}`)
      })
      page.on('console', (message) => {
        if (/Content Security Policy|TrustedHTML|TrustedScript/i.test(message.text())) note(message.text())
      })
      return page
    },
    close: async () => {
      await Promise.all(contexts.map((context) => context.close()))
      await browser.close()
    },
  }
}

const desktop = { width: 1280, height: 900 }
const phone = { width: 390, height: 844 }
/** On its side: beside the menu a list has less room than the whole of one that stands upright. */
const tablet = { width: 1024, height: 768 }

/** Lists and cells of lists that are wider than their box: nobody sees that there is more. A table that somebody opens may be. */
const cutOff = `[...document.querySelectorAll('[role=group]:has(> table), [role=group] > table td')]
  .filter((box) => box.closest('details') === null && box.scrollWidth > box.clientWidth)
  .map((box) => 'all of ' + (box.ariaLabel ?? box.textContent))`

/** Buttons that lie over lines of code, which end behind them. */
const covered = `[...document.querySelectorAll('figure:has(> pre)')].filter((figure) => {
  const code = figure.querySelector('pre').getBoundingClientRect()
  return [...figure.querySelectorAll('button')].some((button) => {
    const box = button.getBoundingClientRect()
    return box.left < code.right && box.right > code.left && box.top < code.bottom && box.bottom > code.top
  })
}).map((figure) => 'what the button covers of ' + figure.ariaLabel)`

/** Nothing else is another in another colour scheme. */
const aboutColours = ['color-contrast', 'link-in-text-block']
/** Lists take a new width some frames later; what is cut off then stays so. */
const framesMax = 60
const nextFrame = 'new Promise(requestAnimationFrame)'

/** What an accessibility checker finds on a page itself; mail that is shown in a frame is not ours. The checker is read once for each document. */
async function violationsOn(page: Page, only?: readonly string[]): Promise<readonly Result[]> {
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(axe.source)
  const options = {
    iframes: false,
    resultTypes: ['violations'],
    ...(only !== undefined && { runOnly: only }),
  }
  return page.evaluate<readonly Result[]>(
    `axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations)`,
  )
}

/** Of each page that is inspected, four: a sixth of what the browser does in these tests, for people who look at them, and CI does not. */
const wantsPictures = process.env['PICTURES'] === '1'

/**
 * What an accessibility checker finds in a page as it is, and whether a phone or a tablet must scroll sideways, the page or a list. With PICTURES=1 the folder gets
 * pictures of it, for people to look at.
 */
export async function inspect(page: Page, folder: string, name: string): Promise<string[]> {
  if (wantsPictures) mkdirSync(folder, { recursive: true })
  const findings: string[] = []
  /** Without one a frame, for which a picture waits too: the page is then as it was asked to be. */
  const picture = (as: string): Promise<unknown> =>
    wantsPictures
      ? page.screenshot({ path: join(folder, `${name}-${as}.png`), fullPage: true })
      : page.evaluate(nextFrame)
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme })
    await picture(colorScheme)
    const violations = await violationsOn(page, colorScheme === 'dark' ? undefined : aboutColours)
    for (const { id, help, nodes } of violations)
      for (const { html, failureSummary } of nodes)
        findings.push(`${name} (${colorScheme}): ${id}: ${help}: ${html.slice(0, 200)}: ${failureSummary ?? ''}`)
  }
  for (const [device, size] of Object.entries({ phone, tablet })) {
    await page.setViewportSize(size)
    await picture(device)
    const width = await page.evaluate<number>('document.documentElement.scrollWidth')
    if (width > size.width) findings.push(`${name}: on a ${device} it is ${width} pixels wide`)
    let cut = await page.evaluate<string[]>(cutOff)
    for (let frames = 0; cut.length > 0 && frames < framesMax; frames++) {
      await page.evaluate(nextFrame)
      cut = await page.evaluate<string[]>(cutOff)
    }
    cut.push(...(await page.evaluate<string[]>(covered)))
    findings.push(...cut.map((what) => `${name}: on a ${device} one does not see ${what}`))
  }
  await page.setViewportSize(desktop)
  return findings
}
