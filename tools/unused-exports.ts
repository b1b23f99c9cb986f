// Names every export in src/ that nothing imports from elsewhere. A test beside its file is no use by itself: what only its own tests
// need is not needed; but what its own file builds on may be shown to a test. Programs in test/, tools/ and bench/ are users. A type
// counts as used, too, where its own file builds on it, because then it is part of another export's shape.
//
// It reads text, as the house test does: one statement form each for imports and exports, which the formatter guarantees.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** `file name` and why it stands although nobody uses it yet. */
const allowed: Readonly<Record<string, string>> = {
  'src/accept/checks.ts checks': 'the precedence of refusals, which a test reads as a table',
}

interface Export {
  readonly file: string
  readonly name: string
  readonly isType: boolean
}

const root = fileURLToPath(new URL('..', import.meta.url))
const sources = new Map(
  globSync('{src,test,tools,bench}/**/*.ts', { cwd: root }).map((file) => [
    file,
    readFileSync(join(root, file), 'utf8'),
  ]),
)
const isBesideTest = (file: string): boolean => file.startsWith('src/') && /\.test(?:-[a-z]+)?\.ts$/.test(file)

const declared =
  /^export (?:declare )?(?:async )?(?:abstract )?(function\*?|const|let|class|interface|type) ([A-Za-z_$][\w$]*)/gm

function exportsOf(file: string, text: string): Export[] {
  return [...text.matchAll(declared)].map((match) => ({
    file,
    name: match[2] ?? '',
    isType: match[1] === 'interface' || match[1] === 'type',
  }))
}

/** `file name` for each name that the text takes from another file of ours; `file *` where it takes all. */
function usesOf(file: string, text: string): string[] {
  const from = /^(?:import|export)\s+(?:type\s+)?([^'"`;]*?)\s*\bfrom\s+['"](\.[^'"]+)['"]/gm
  const named = [...text.matchAll(from)].flatMap(([, what = '', target = '']) => {
    const path = join(dirname(file), target)
    const list = /\{([^}]*)\}/.exec(what)?.[1]
    if (list === undefined) return [`${path} *`]
    return list
      .split(',')
      .map(
        (each) =>
          each
            .trim()
            .replace(/^type\s+/, '')
            .split(/\s+as\s+/)[0] ?? '',
      )
      .filter((name) => name !== '')
      .map((name) => `${path} ${name}`)
  })
  const dynamic = [...text.matchAll(/\bimport\(\s*['"](\.[^'"]+)['"]/g)].map(
    ([, target = '']) => `${join(dirname(file), target)} *`,
  )
  return [...named, ...dynamic]
}

const used = new Set([...sources].filter(([file]) => !isBesideTest(file)).flatMap(([file, text]) => usesOf(file, text)))
const shown = new Set([...sources].filter(([file]) => isBesideTest(file)).flatMap(([file, text]) => usesOf(file, text)))
/** What is only spoken of is not used. */
const withoutComments = (text: string): string => text.replace(/^\s*(?:\/\/|\/?\*).*$|\s\/\/ .*$/gm, '')
const isBuiltOn = ({ file, name }: Export): boolean =>
  (withoutComments(sources.get(file) ?? '').match(new RegExp(`\\b${name.replaceAll('$', '\\$')}\\b`, 'g'))?.length ??
    0) > 1

const unused = [...sources]
  .filter(([file]) => file.startsWith('src/') && !isBesideTest(file))
  .flatMap(([file, text]) => exportsOf(file, text))
  .filter((each) => !used.has(`${each.file} ${each.name}`) && !used.has(`${each.file} *`))
  .filter((each) => !((each.isType || shown.has(`${each.file} ${each.name}`)) && isBuiltOn(each)))
  .map(({ file, name }) => `${file} ${name}`)

const complaints = [
  ...unused.filter((each) => !(each in allowed)).map((each) => `${each}: nobody uses this export`),
  ...Object.keys(allowed)
    .filter((each) => !unused.includes(each))
    .map((each) => `${each}: is used, or gone: take it off the list in tools/unused-exports.ts`),
]
for (const line of complaints) console.log(line)
process.exitCode = complaints.length > 0 ? 1 : 0
