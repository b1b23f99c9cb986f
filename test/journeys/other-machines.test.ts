// Machines that are set up otherwise than ours: what they have of Node and npm, and what they say of both, ends in an installation that works or in one
// sentence that names the way out.
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../world/ending.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = temporaryFolder()

/** What is there before anything is installed, and an npm that writes down how it is called and lays nothing there. */
function checkoutOf(name: string) {
  const checkout = join(folder, name)
  mkdirSync(join(checkout, 'tools'), { recursive: true })
  for (const file of ['bin', 'package.json', 'package-lock.json'])
    cpSync(join(root, file), join(checkout, file), { recursive: true })
  return checkout
}

function run(checkout: string, program: string, env: NodeJS.ProcessEnv) {
  const path = `${join(checkout, 'tools')}:${process.env['PATH']}`
  const { status, stderr } = spawnSync(join(checkout, program), ['serve'], {
    cwd: '/',
    env: { PATH: path, ...env },
    encoding: 'utf8',
  })
  return { status, stderr }
}

test('a Node 24 that is older than the code needs is told apart from one that is new enough', () => {
  const checkout = checkoutOf('old-node')
  writeFileSync(join(checkout, 'tools/npm'), '#!/bin/sh\n', { mode: 0o755 }) // it brings none, as on macOS
  const old = join(checkout, 'old.cjs')
  writeFileSync(old, "delete require('crypto').randomUUIDv7; require('module').syncBuiltinESMExports()\n")
  const PATH = `${join(checkout, 'tools')}:${join(process.execPath, '..')}:/usr/bin:/bin`
  const env = { PATH, NODE_OPTIONS: `--require ${old}` }
  const words = expect.stringContaining('24.16 or newer') as string
  expect(run(checkout, 'bin/posthorn', env)).toEqual({ status: 1, stderr: words })
  const { status, stderr } = run(checkout, 'bin/node', env)
  expect({ status, stderr }).toEqual({ status: 1, stderr: words })
  expect(stderr).toContain(process.version)
})

test("an .npmrc for other projects leaves out nothing of ours, and npm has a place for what it fetches where nobody's home is", () => {
  const checkout = checkoutOf('npmrc')
  // It asks npm itself what is in force, and brings a Node so that the installation ends.
  const npm = `#!/bin/sh
shift
PATH=${process.env['PATH']} npm config list --json "$@" >"${checkout}/said"
mkdir -p node_modules/.bin && ln -s ${process.execPath} node_modules/.bin/node
`
  writeFileSync(join(checkout, 'tools/npm'), npm, { mode: 0o755 })
  const npmrc =
    'engine-strict=true\nomit[]=optional\nbin-links=false\ninstall-strategy=linked\ndry-run=true\npackage-lock-only=true\n'
  writeFileSync(join(checkout, 'tools/npmrc'), npmrc)
  const said = (env: NodeJS.ProcessEnv) => {
    rmSync(join(checkout, 'node_modules'), { recursive: true, force: true })
    run(checkout, 'bin/posthorn', {
      POSTHORN_ROLES: 'nobody',
      npm_config_userconfig: join(checkout, 'tools/npmrc'),
      ...env,
    })
    expect(existsSync(join(checkout, '.installing'))).toBe(false)
    return JSON.parse(readFileSync(join(checkout, 'said'), 'utf8')) as Record<string, unknown>
  }
  expect(said({ HOME: checkout })).toMatchObject({
    'engine-strict': false,
    omit: ['dev'],
    'bin-links': true,
    'install-strategy': 'hoisted',
    global: false,
    'dry-run': false,
    'package-lock-only': false,
    cache: join(checkout, '.npm'),
  })
  expect(said({ HOME: '/dev/null/home' })['cache']).toBe(join(checkout, '.installing/npm'))
  expect(said({ HOME: checkout, npm_config_cache: '/dev/null/npm' })['cache']).toBe(join(checkout, '.installing/npm'))
})

test('what installers that were killed have left holds up no other, also one of the same number', () => {
  const checkout = checkoutOf('killed')
  const npm = `#!/bin/sh\nmkdir -p node_modules/.bin && ln -s ${process.execPath} node_modules/.bin/node\n`
  writeFileSync(join(checkout, 'tools/npm'), npm, { mode: 0o755 })
  mkdirSync(join(checkout, '.installing'))
  writeFileSync(join(checkout, '.installing/pid'), '4194305') // more than there can be
  const script = `
    import { mkdirSync } from 'node:fs'
    mkdirSync(${JSON.stringify(join(checkout, '.installing'))} + '.' + process.pid + '/npm', { recursive: true })
    await import(${JSON.stringify(join(checkout, 'bin/bootstrap.mjs'))})`
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    env: { PATH: `${join(checkout, 'tools')}:${process.env['PATH']}` },
    encoding: 'utf8',
  })
  expect({ status, stderr }).toEqual({ status: 0, stderr: 'posthorn: installing dependencies, once...\n' })
  expect(readdirSync(checkout).filter((name) => name.startsWith('.installing'))).toEqual([])
})

test('what NODE_OPTIONS says to the Node that we bring holds up no start on a machine whose own Node knows it not', () => {
  const checkout = checkoutOf('options')
  const node = `#!/bin/sh
[ -z "$NODE_OPTIONS" ] || { echo "node: $NODE_OPTIONS is not allowed in NODE_OPTIONS" >&2; exit 9; }
exec ${process.execPath} "$@"
`
  writeFileSync(join(checkout, 'tools/node'), node, { mode: 0o755 })
  writeFileSync(join(checkout, 'tools/npm'), '#!/bin/sh\necho "npm was asked"\nexit 1\n', { mode: 0o755 })
  const { stderr } = run(checkout, 'bin/posthorn', { NODE_OPTIONS: '--use-system-ca' })
  expect(stderr).toContain('npm was asked')
  expect(stderr).not.toContain('not allowed')
})

test('a service starts where no Node is in its PATH, or an old one: that which npm brought will do', () => {
  const checkout = checkoutOf('brought')
  const tools = join(checkout, 'tools')
  const npm = `#!/bin/sh\nmkdir -p node_modules/.bin && ln -s ${process.execPath} node_modules/.bin/node\n`
  writeFileSync(join(tools, 'npm'), npm, { mode: 0o755 })
  symlinkSync(join(root, 'src'), join(checkout, 'src'))
  const serve = (PATH = process.env['PATH']) => run(checkout, 'bin/posthorn', { POSTHORN_ROLES: 'nobody', PATH })
  // Installed by somebody whose PATH has a Node, as nvm makes it; systemd does not have that, and perhaps the one of Debian.
  const words = expect.stringMatching(/^POSTHORN_ROLES has "nobody"/m) as string
  expect(serve(`${tools}:${process.env['PATH']}`)).toEqual({ status: 1, stderr: words })
  symlinkSync('/usr/bin/dirname', join(tools, 'dirname'))
  expect(serve(tools)).toEqual({ status: 1, stderr: words })
  writeFileSync(join(tools, 'node'), '#!/bin/sh\nexit 9\n', { mode: 0o755 })
  expect(serve(tools)).toEqual({ status: 1, stderr: words })
})

test.runIf(process.platform === 'linux' && process.getuid?.() === 0).each([
  ['10.0.0.5', 'localhost'],
  ['web_1', 'localhost'],
  ['web-.example.org', 'localhost'],
  ['Web-1.example.org', 'web-1.example.org'],
])('a machine that is called %s is %s to others, where nobody says otherwise', (name, told) => {
  const ask = `const { readSettings } = await import(${JSON.stringify(join(root, 'src/config.ts'))})
    console.log(readSettings({}).POSTHORN_HOSTNAME)`
  const script = 'printf %s "$1" >/proc/sys/kernel/hostname && exec "$2" --input-type=module -e "$3"'
  const { stdout } = spawnSync('unshare', ['--uts', 'sh', '-c', script, 'sh', name, process.execPath, ask], {
    encoding: 'utf8',
  })
  expect(stdout).toBe(`${told}\n`)
})

test("npm start finds its checkout beside somebody's exported CDPATH", () => {
  // As npm calls it: by a name that is no path from here.
  const { status, stdout, stderr } = spawnSync('sh', ['-c', 'exec bin/posthorn --version'], {
    cwd: root,
    env: { PATH: process.env['PATH'], CDPATH: `${root}:/usr/local` },
    encoding: 'utf8',
  })
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+/), stderr: '' })
})

test('and so does CI', () => {
  const elsewhere = temporaryFolder()
  mkdirSync(join(elsewhere, '.ci'))
  const tools = temporaryFolder()
  writeFileSync(join(tools, 'npm'), '#!/bin/sh\npwd -P\n', { mode: 0o755 })
  const { status, stdout } = spawnSync('bash', ['.ci/run'], {
    cwd: root,
    env: { PATH: `${tools}:${process.env['PATH']}`, CDPATH: elsewhere },
    encoding: 'utf8',
  })
  expect([status, stdout]).toEqual([0, `${realpathSync(root)}\n`])
})

test('a checkout that Node loads nothing from says so', () => {
  expect(run(checkoutOf('back\\slash'), 'bin/posthorn', {})).toEqual({
    status: 1,
    stderr: expect.stringMatching(
      /^Posthorn cannot run in .*back\\slash: .* Move the checkout to another folder\.\n$/,
    ) as string,
  })
})

test.runIf(process.platform === 'linux')(
  'where a machine has no memory left, a command ends, and not the service beside it',
  () => {
    const tell = `data:text/javascript,${encodeURIComponent(`
      import { readFileSync } from 'node:fs'
      console.log('goes ' + readFileSync('/proc/self/oom_score_adj', 'utf8').trim())
      process.exit()`)}`
    const goes = (...args: string[]) =>
      spawnSync(join(root, 'bin/posthorn'), args, {
        env: { PATH: process.env['PATH'], NODE_OPTIONS: `--import=${tell}` },
        encoding: 'utf8',
      }).stdout
    const own = readFileSync('/proc/self/oom_score_adj', 'utf8').trim()
    expect(goes('backup', 'it')).toBe('goes 1000\n')
    expect(goes('suppression', 'import', 'Shop', 'list.csv')).toBe('goes 1000\n')
    expect(goes('serve')).toContain(`goes ${own}\n`)
  },
)
