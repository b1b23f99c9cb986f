// A way out that leads nowhere is worse than none: every command that a page, an error, the dashboard or an alert tells somebody to run is one that
// there is, and knows the options that stand behind it.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { runCli } from './cli.ts'

const root = join(import.meta.dirname, '../..')
const settings = () => {
  throw new Error('help needs no settings')
}
afterEach(() => vi.restoreAllMocks())

const helps = new Map<string, string>()
async function helpOf(words: readonly string[]): Promise<string> {
  const known = helps.get(words.join(' '))
  if (known !== undefined) return known
  let text = ''
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((part) => (text += String(part)) !== '')
  await runCli([...words, '--help'], settings)
  write.mockRestore()
  helps.set(words.join(' '), text)
  return text
}

const commandsIn = (help: string): readonly string[] =>
  [...(help.split('\nCommands:\n')[1] ?? '').matchAll(/^ {2}([a-z][a-z0-9-]*)/gm)].map(([, name = '']) => name)
const optionsIn = (help: string): readonly string[] => ['--json', '--help', ...(help.match(/--[a-z][a-z0-9-]*/g) ?? [])]

/** Up to where another command begins, or what is surely none of its words. */
const named = /(`?)(?:\.\/bin\/)?posthorn ([a-z][a-z0-9-]*(?:(?!posthorn )[^`|&;#\n\\])*)/g

/** What is wrong with a command as it is told. Outside of a page's quotes other words may begin so, too: `posthorn ready`. */
async function wrongWith(told: string, isQuoted: boolean): Promise<string | undefined> {
  const words = told.split(/\s+/)
  const [first = '', second = ''] = words.map((word) => word.replace(/[.,:)'"]+$/, ''))
  if (!commandsIn(await helpOf([])).includes(first))
    return isQuoted && /^[a-z-]+$/.test(first) ? `there is no ${first}` : undefined
  const under = commandsIn(await helpOf([first]))
  // `posthorn key` alone names the group.
  if (under.length > 0 && !under.includes(second))
    return /^[a-z]/.test(second) ? `there is no ${first} ${second}` : undefined
  const command = under.length > 0 ? [first, second] : [first]
  const known = optionsIn(await helpOf(command))
  const unknown = words
    .flatMap((word) => /^--[a-z][a-z0-9-]*/.exec(word)?.[0] ?? [])
    .find((word) => !known.includes(word))
  return unknown === undefined ? undefined : `${command.join(' ')} has no ${unknown}`
}

const files = globSync(['*.md', 'docs/*.md', 'sdk/*.md', 'ops/*', 'src/**/*.ts', 'dashboard/src/**/*.{ts,tsx}'], {
  cwd: root,
  exclude: (name) => /\.test\.ts$|test-kit/.test(name),
})

test('every command that somebody is told to run is there, with its options', async () => {
  const told = files.flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(named)].map(([, quote, words = '']) => ({
      file,
      words,
      isQuoted: quote !== '' && file.endsWith('.md'),
    })),
  )
  const wrong: string[] = []
  for (const { file, words, isQuoted } of told) {
    const why = await wrongWith(words, isQuoted)
    if (why !== undefined) wrong.push(`${file}: ${words.trim()}: ${why}`)
  }
  expect(told.length).toBeGreaterThan(200)
  expect(wrong).toEqual([])
})

test.each([
  ['key lst', 'there is no key lst'],
  ['key list --all', 'key list has no --all'],
  ['doctor --strictly', 'doctor has no --strictly'],
  ['kye list', 'there is no kye'],
  ['recover --resume', undefined],
])('as in `posthorn %s`', async (told, why) => {
  expect(await wrongWith(told, true)).toBe(why)
})
