// Who may lean on whom. If this test stops you, either the code is in the wrong room or the table is wrong: both are worth a
// thought. ARCHITECTURE.md says what each room is for.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const floor = ['domain', 'mail', 'base', 'store'] as const

/** A room may import its own files, those of the rooms named here, and config.ts (but `contract`, which could be published alone). */
const leansOn: Readonly<Record<string, readonly string[]>> = {
  base: [],
  contract: [],
  mail: [],
  domain: ['mail'],
  embedded: ['base'],
  store: ['base', 'mail', 'domain', 'embedded'],
  accept: floor,
  deliver: floor,
  feedback: floor,
  feeds: floor,
  workspace: floor,
  webhooks: [...floor, 'contract'],
  doctor: [...floor, 'embedded'],
  http: ['domain', 'mail', 'base', 'contract', 'feedback', 'feeds', 'workspace'],
  smtp: ['domain', 'mail', 'base', 'accept', 'feedback'],
  cli: [...floor, 'contract', 'embedded', 'accept', 'deliver', 'doctor', 'feedback', 'feeds', 'webhooks', 'workspace'],
}
/** They join the rooms, and may lean on everything; nobody else leans on them. */
const joining = ['entry', 'roles']
/** Entered only through the file with their own name: `accept/accept.ts`. */
const haveOneDoor = ['accept', 'deliver', 'doctor', 'embedded', 'feedback', 'feeds', 'webhooks', 'workspace']

/** Which rooms bring in an outside library. */
const broughtInBy: Readonly<Record<string, readonly string[]>> = {
  pg: ['store'],
  'pg-copy-streams': ['store'],
  kysely: ['store'],
  'node:sqlite': ['base'],
  fastify: ['http'],
  '@fastify/cookie': ['http'],
  otpauth: ['workspace'],
  '@simplewebauthn/server': ['workspace'],
  '@scalar/fastify-api-reference': ['http'],
  typebox: ['contract', 'http'],
  pino: ['base'],
  'prom-client': ['base'],
  'dns-packet': ['base', 'deliver'],
  tldts: ['deliver'],
  commander: ['cli'],
  undici: ['webhooks'],
  mailauth: ['feedback'],
}

/** Rooms without I/O, and what of Node is none. */
const pure = ['domain', 'mail', 'contract']
const pureModules = ['node:buffer', 'node:crypto', 'node:string_decoder', 'node:url', 'node:util']

/** The environment is read at the border, once: by the entries, which hand it to `readSettings`. */
const readTheEnvironment = ['src/main.ts', 'src/delivery-process.ts']

const linesMax = 400
/** Longer files, and the reason why they are one subject. */
const mayBeLong: Readonly<Record<string, string>> = {
  'src/limits.ts': 'one table: every limit',
}

const poorNames =
  /^(?:utils?|helpers?|common|types|managers?|misc)(?:\.|$)|-(?:service|manager|utils?|helpers?)(?:\.|$)/

interface Import {
  readonly from: string
  readonly target: string
}

const root = fileURLToPath(new URL('..', import.meta.url))
const files = globSync('src/**/*.ts', { cwd: root }).sort()
/** Tests may look behind every door. */
const isTest = (file: string): boolean => /\.test(?:-[a-z]+)?\.ts$/.test(file)
const code = new Map(
  files.filter((file) => !isTest(file)).map((file) => [file, readFileSync(join(root, file), 'utf8')]),
)
const imports: readonly Import[] = [...code].flatMap(([from, text]) =>
  importsOf(text).map((target) => ({ from, target })),
)

/** Static imports, exports from elsewhere, and dynamic imports of a literal. */
function importsOf(text: string): string[] {
  const pattern =
    /^(?:import|export)\b[^'"`;]*?\bfrom\s+['"]([^'"]+)['"]|^import\s+['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm
  return [...text.matchAll(pattern)].map((match) => match[1] ?? match[2] ?? match[3] ?? '')
}

/** The room of a file below src/, or `entry` for main.ts, roles.ts and the like. */
function roomOf(file: string): string {
  const [, room, inside] = file.split('/')
  return inside === undefined ? 'entry' : (room ?? 'entry')
}

/** `pg` of `pg`, `kysely` of `kysely/migration`, `@a/b` of `@a/b/c`; `node:fs` of `node:fs/promises`. */
function libraryOf(target: string): string {
  return target.split('/', target.startsWith('@') ? 2 : 1).join('/')
}

/** Why a file may not import another, or undefined. */
function complaint({ from, target }: Import): string | undefined {
  const room = roomOf(from)
  if (!target.startsWith('.')) return outsideComplaint(room, libraryOf(target))
  if (joining.includes(room)) return undefined
  const path = join(dirname(from), target)
  const other = roomOf(path)
  if (other === room) return undefined
  if (other === 'entry')
    return path === 'src/config.ts' && room !== 'contract' ? undefined : `${room}/ may not lean on ${path}`
  const allowed = leansOn[room] ?? []
  if (!allowed.includes(other)) return `${room}/ leans on: ${allowed.join(', ') || 'nothing of ours'}`
  if (haveOneDoor.includes(other) && path !== `src/${other}/${other}.ts`)
    return `go in by ${other}'s door, ${other}/${other}.ts`
  return undefined
}

function outsideComplaint(room: string, library: string): string | undefined {
  if (library.startsWith('node:') && !(library in broughtInBy))
    return pure.includes(room) && !pureModules.includes(library) ? `${room}/ does no I/O` : undefined
  const owners = broughtInBy[library]
  if (owners === undefined) return `nobody brings in ${library}: give it an owner in this table`
  return owners.includes(room) ? undefined : `${library} is brought in by: ${owners.join(', ')}`
}

describe('the table', () => {
  test('every room stands in it', () => {
    const rooms = new Set(files.map(roomOf).filter((room) => !joining.includes(room)))
    expect([...rooms].filter((room) => !(room in leansOn))).toEqual([])
  })

  test('its arrows make no circle', () => {
    const reaches = (from: string, seen: readonly string[] = []): readonly string[] =>
      (leansOn[from] ?? []).flatMap((room) =>
        seen.includes(room) ? [room] : [room, ...reaches(room, [...seen, room])],
      )
    expect(Object.keys(leansOn).filter((room) => reaches(room).includes(room))).toEqual([])
  })

  const cases: [string, string, RegExp | undefined][] = [
    ['src/http/server.ts', '../feeds/feeds.ts', undefined],
    ['src/http/server.ts', '../feeds/ses.ts', /door/],
    ['src/http/server.ts', '../accept/accept.ts', /leans on/],
    ['src/http/server.ts', '../store/database.ts', /leans on/],
    ['src/http/server.ts', '../smtp/server.ts', /leans on/],
    ['src/accept/accept.ts', '../deliver/deliver.ts', /leans on/],
    ['src/accept/accept.ts', '../config.ts', undefined],
    ['src/accept/accept.ts', '../main.ts', /may not lean/],
    ['src/accept/accept.ts', '../roles/role.ts', /leans on/],
    ['src/roles/api.ts', '../accept/accept.ts', undefined],
    ['src/contract/message.ts', '../config.ts', /may not lean/],
    ['src/mail/address.ts', '../domain/message.ts', /leans on/],
    ['src/mail/dkim.ts', 'node:crypto', undefined],
    ['src/mail/dkim.ts', 'node:fs/promises', /no I\/O/],
    ['src/deliver/deliver.ts', 'pg', /brought in by/],
    ['src/store/migrate.ts', 'kysely/migration', undefined],
    ['src/deliver/deliver.ts', 'left-pad', /nobody/],
    ['src/main.ts', './accept/checks.ts', undefined],
  ]
  test.each(cases)('it judges %s importing %s', (from, target, words) => {
    const said = complaint({ from, target })
    if (words === undefined) expect(said).toBeUndefined()
    else expect(said).toMatch(words)
  })

  test('it sees every way to import', () => {
    const text = `import a from 'a'\nimport {\n  b,\n} from "b"\nimport type { C } from 'c'\nexport { d } from 'd'\nexport * from 'e'\nimport 'f'\nconst g = await import('g')\n// from 'h'`
    expect(importsOf(text)).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'g'])
  })
})

describe('the house', () => {
  test('no file leans on a room, a door or a library that its own room may not', () => {
    const complaints = imports.flatMap((each) => {
      const words = complaint(each)
      return words === undefined ? [] : [`${each.from} imports ${each.target}: ${words}`]
    })
    expect(complaints).toEqual([])
  })

  test('only store speaks SQL', () => {
    const speaks =
      /\bsql`|\bsql\(\s*['"]|['"`]\s*(?:select\s[^'"`]*\sfrom|insert\s+into|update\s+\w+\s+set|delete\s+from)\s/i
    expect(filesWith(speaks).filter((file) => roomOf(file) !== 'store')).toEqual([])
  })

  test('nothing but the entries reads the environment', () => {
    const reads = /\bprocess\.env\b|\benv\b[^\n]*from 'node:process'/
    expect(filesWith(reads).filter((file) => !readTheEnvironment.includes(file))).toEqual([])
  })

  test('every file has a better name than these', () => {
    expect(files.filter((file) => poorNames.test(basename(file)))).toEqual([])
    expect(['utils.ts', 'types.ts', 'mail-service.ts', 'helpers.test.ts'].every((name) => poorNames.test(name))).toBe(
      true,
    )
    expect(['service.ts', 'content-type.ts'].some((name) => poorNames.test(name))).toBe(false)
  })

  test('every file opens by saying what it promises', () => {
    const opens = (text: string): boolean => /^(?:#!.*\n)?\/\/ \S|^\/\*\* /.test(text)
    expect([...code].filter(([, text]) => !opens(text)).map(([file]) => file)).toEqual([])
  })

  test('a file over 400 lines has its reason in the table, and no reason outlives its file', () => {
    const long = [...code].filter(([, text]) => text.split('\n').length > linesMax + 1).map(([file]) => file)
    expect(long.filter((file) => !(file in mayBeLong))).toEqual([])
    expect(Object.keys(mayBeLong).filter((file) => !code.has(file))).toEqual([])
  })
})

describe('what the documents name is there', () => {
  test('docs/failure-matrix.md: the tests', () => {
    const lines = textOf('docs/failure-matrix.md').split('\n')
    // A row ends with files, and behind each the words that find its tests; the paragraphs below name them so, too.
    const named = lines.flatMap((line) => {
      let text: string | undefined
      const cell = line.startsWith('|') ? (line.split('|').at(-2) ?? '') : line
      return [...cell.matchAll(/`([^`]+\.test\.ts)`|"([^"]+)"/g)].flatMap(([, file, words = '']) => {
        if (file !== undefined) {
          text = textOf(file.startsWith('test/') ? file : `src/${file}`)
          return { what: file, isThere: text !== '' }
        }
        return text === undefined ? [] : { what: words, isThere: text.includes(words) }
      })
    })
    expect(named.length).toBeGreaterThan(100)
    expect(named.filter(({ isThere }) => !isThere)).toEqual([])
  })

  const pages = globSync(['*.md', 'docs/**/*.md', 'sdk/*.md', 'bench/*.md'], { cwd: root })
  const everyFile = globSync('{src,test,bench,tools,sdk,dashboard}/**/*.{ts,tsx,sql,txt}', {
    cwd: root,
    exclude: (name) => /(?:^|\/)node_modules$/.test(name),
  }).map((file) => `/${file}`)

  test.each(pages)('%s: the files', (page) => {
    const named = [...textOf(page).matchAll(/`([\w./-]+\.(?:ts|tsx|sql))`/g)].map(([, file]) => file ?? '')
    const isExample = (file: string): boolean => /^x\.|\bNNNN-/.test(file)
    expect(named.filter((file) => !isExample(file) && !everyFile.some((each) => each.endsWith(`/${file}`)))).toEqual([])
  })

  /** A heading's name in a link, as GitHub and others make it. */
  const anchorsOf = (page: string): string[] =>
    [
      ...textOf(page)
        .replace(/^```[^]*?^```/gm, '')
        .matchAll(/^#+ (.*)$/gm),
    ].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    )

  test.each(pages)('%s: the links', (page) => {
    const links = [
      ...textOf(page)
        .replace(/^```[^]*?^```/gm, '')
        .matchAll(/\]\(([^)\s]+)\)/g),
    ].map(([, to = '']) => to)
    const isGood = (to: string): boolean => {
      const [path = '', anchor] = to.split('#')
      const target = path === '' ? page : join(page, '..', path)
      return existsSync(join(root, target)) && (anchor === undefined || anchorsOf(target).includes(anchor))
    }
    expect(links.filter((to) => !/^[a-z]+:/.test(to) && !isGood(to))).toEqual([])
  })

  test('ARCHITECTURE.md: the functions of the database are those that this release asks', () => {
    const store = [...code].filter(([file]) => roomOf(file) === 'store').map(([, text]) => text)
    const named = [...textOf('ARCHITECTURE.md').matchAll(/`([a-z_]+_\d+)`/g)].map(([, name]) => name ?? '')
    expect(named.length).toBeGreaterThan(5)
    expect(named.filter((name) => !store.some((text) => text.includes(`${name}(`)))).toEqual([])
  })

  test('ARCHITECTURE.md: the tables are those of the schema', () => {
    const section = textOf('ARCHITECTURE.md').split('\n## The tables\n')[1]?.split('\n## ')[0] ?? ''
    const rows = section.split('\n').filter((line) => line.startsWith('| `'))
    const named = rows.flatMap((row) =>
      [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, table = '']) => table),
    )
    const made = [...textOf('src/store/schema.sql').matchAll(/^create table (?:public\.)?(\w+)/gim)]
    expect(named.sort()).toEqual(made.map(([, table = '']) => table).sort())
  })
})

interface Package {
  readonly link?: boolean
  readonly inBundle?: boolean
  readonly integrity?: string
  readonly hasInstallScript?: boolean
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

describe('what is installed is what somebody has looked at', () => {
  const { packages } = JSON.parse(textOf('package-lock.json')) as { packages: Readonly<Record<string, Package>> }
  const entries = Object.entries(packages)
  const ours = entries.filter(([folder]) => !folder.includes('node_modules/'))

  test('each package has an exact version', () => {
    expect(ours.map(([folder]) => folder).sort()).toEqual(['', 'dashboard', 'sdk'])
    const asked = ours.flatMap(([, { dependencies, devDependencies, optionalDependencies }]) =>
      Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }),
    )
    expect(asked.length).toBeGreaterThan(20)
    expect(asked.filter(([, version]) => !/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version))).toEqual([])
  })

  test('and its hash; what lies inside another package is under that one’s', () => {
    const foreign = entries.filter(
      ([folder, { link, inBundle }]) => folder.includes('node_modules/') && !(link || inBundle),
    )
    expect(foreign.length).toBeGreaterThan(100)
    expect(foreign.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'))).toEqual([])
  })

  test('and runs nothing while it is installed: PostgreSQL’s would only make links, and is switched off', () => {
    const names = entries
      .filter(([, { hasInstallScript }]) => hasInstallScript)
      .map(([folder]) => folder.replace(/^.*node_modules\//, ''))
    const { allowScripts } = JSON.parse(textOf('package.json')) as { allowScripts: Readonly<Record<string, boolean>> }
    expect(Object.fromEntries(names.map((name) => [name, false]))).toEqual(allowScripts)
    expect(textOf('bin/bootstrap.mjs')).toMatch(/\['ci',[^\]]*'--ignore-scripts'/)
  })
})

/** Empty where there is no such file. */
function textOf(file: string): string {
  return existsSync(join(root, file)) ? readFileSync(join(root, file), 'utf8') : ''
}

function filesWith(pattern: RegExp): string[] {
  return [...code].filter(([, text]) => pattern.test(text)).map(([file]) => file)
}
