// A running Posthorn with a person at a browser, and what tests of the dashboard do there.
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import { inspect, startBrowser, type TestBrowser } from '../world/browser.ts'
import { atTheEnd, ending } from '../world/ending.ts'
import { startPosthorn, type Posthorn, type PosthornOptions } from '../world/posthorn.ts'

export interface Login {
  readonly email: string
  readonly password: string
}

export interface Visit {
  readonly posthorn: Posthorn
  readonly browser: TestBrowser
  /** Where the installation believes that browsers find it. */
  readonly origin: string
  readonly owner: Login
  makeLogin(email: string, workspace: string, role: string): Promise<Login>
  /** Somebody with a browser of their own, perhaps far away, at the overview. */
  signedIn(login: Login, timezoneId?: string): Promise<Page>
}

/** It ends with the file, and fails there where something has happened in a browser that must never happen. */
export async function startVisit(options: PosthornOptions = {}): Promise<Visit> {
  const posthorn = atOneDesk(await ending(startPosthorn, options))
  const origin = posthorn.url.replace('127.0.0.1', 'localhost')
  const browser = await startBrowser(origin)
  atTheEnd(async () => {
    await browser.close()
    expect(browser.incidents).toEqual([])
  })
  return {
    posthorn,
    browser,
    origin,
    owner: firstLogin(posthorn.said()),
    makeLogin: async (email, workspace, role) => {
      const args = ['--email', email, '--workspace', workspace, '--role', role]
      const { password } = await posthorn.cli<{ password: string }>('user', 'create', ...args)
      return { email, password }
    },
    signedIn: async (login, timezoneId) => {
      const person = await browser.person(timezoneId)
      await signIn(person, origin, login)
      await heading(person, 'Overview')
      return person
    },
  }
}

/** What a person at a browser is to find there is made by commands, and nobody asks how each of them begins. */
const atOneDesk = (posthorn: Posthorn): Posthorn => ({
  ...posthorn,
  cli: async <Answer>(...args: readonly string[]) => (await posthorn.commands(args))[0] as Answer,
})

/** The start prints it once. */
export function firstLogin(said: string): Login {
  const [, email = '', password = ''] = /Sign in to the dashboard[^\n]*\n\s+(\S+)\n\s+(\S+)/.exec(said) ?? []
  return { email, password }
}

export async function signIn(person: Page, origin: string, { email, password }: Login): Promise<void> {
  await person.goto(`${origin}/sign-in`)
  await person.getByLabel('E-mail').fill(email)
  await person.getByLabel('Password').fill(password)
  await press(person, 'Sign in')
}

/** Until the page of this name stands there. */
export const heading = (person: Page, name: string | RegExp): Promise<void> =>
  person.getByRole('heading', { level: 1, name }).waitFor()

export const press = (person: Page, name: string | RegExp): Promise<void> =>
  person.getByRole('button', { name, exact: true }).click()

/** Until nothing is being read any more. */
export async function loaded(person: Page): Promise<void> {
  await person.getByRole('heading', { level: 1 }).first().waitFor()
  await expect.poll(() => person.getByText('Loading…').count(), { timeout: 60_000, interval: 20 }).toBe(0)
}

/** Inspects pages. With PICTURES=1, pictures of them are left in test/dashboard/screenshots-<about>. */
export function inspector(about: string): (person: Page, name: string) => Promise<string[]> {
  const folder = fileURLToPath(new URL(`screenshots-${about}`, import.meta.url))
  rmSync(folder, { recursive: true, force: true })
  return (person, name) => inspect(person, folder, name)
}
