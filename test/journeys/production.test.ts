// The production guide as somebody follows it: every block of it that is marked is run, line by line, against a real installation; the unit file is
// understood by systemd; alerts and dashboard name only numbers that exist.
import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { ending, temporaryFolder } from '../world/ending.ts'
import { startDnsServer, type DnsServer } from '../world/dns-server.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

/** The lines of the blocks behind `<!-- run -->`. */
const blocks = [...read('docs/production.md').matchAll(/<!-- run -->\n```sh\n([^]*?)```/g)].map(
  (match) => match[1] as string,
)

let posthorn: Posthorn
let dns: DnsServer
let folder: string

beforeAll(async () => {
  dns = await ending(startDnsServer)
  folder = temporaryFolder()
  mkdirSync(join(folder, 'bin'))
  symlinkSync(join(root, 'bin/posthorn'), join(folder, 'bin/posthorn'))
  // The units name /opt/posthorn, and files that only a server has.
  for (const name of ['posthorn.service', 'posthorn-backup.service', 'posthorn-backup.timer']) {
    const unit = read(`ops/${name}`)
      .replaceAll('/opt/posthorn', root)
      .replace('User=posthorn', 'User=root')
      .replace('Group=posthorn', 'Group=root')
    writeFileSync(join(folder, name), unit)
  }
  // An empty key counts as none: it is made in the data folder.
  posthorn = await ending(startPosthorn, {
    settings: { POSTHORN_DNS_SERVERS: dns.address, POSTHORN_SECRET_KEY: '' },
    database: 'embedded',
  })
})

/** As `npm ci --omit=dev` leaves it behind, as far as anybody looks at it. */
function filledCheckout(name: string): string {
  const checkout = join(folder, name)
  mkdirSync(join(checkout, 'bin'), { recursive: true })
  for (const file of ['bin/bootstrap.mjs', 'package-lock.json']) cpSync(join(root, file), join(checkout, file))
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, { dev?: boolean }> }
  const there = Object.entries(packages).filter(([path, { dev }]) => path !== '' && dev !== true)
  for (const [path] of there) mkdirSync(join(checkout, path), { recursive: true })
  writeFileSync(
    join(checkout, 'node_modules/.package-lock.json'),
    JSON.stringify({ packages: Object.fromEntries(there) }),
  )
  return checkout
}

test('what npm ci --omit=dev has filled is not filled again, with the tools of the tests, by whoever may write there', () => {
  const checkout = filledCheckout('own')
  // No npm is in PATH: nothing is to be installed.
  const bootstrap = () =>
    spawnSync(process.execPath, [join(checkout, 'bin/bootstrap.mjs')], { env: { PATH: '/nowhere' }, encoding: 'utf8' })
  expect(bootstrap()).toMatchObject({ status: 0, stderr: '' })
  expect(readFileSync(join(checkout, 'node_modules/.posthorn-lock-hash'), 'utf8')).toMatch(/ prod\n$/)
})

test('the Node that npm brought is found where npm 8 has taken its link away', () => {
  const checkout = filledCheckout('npm-8')
  const brought = join(checkout, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin')
  mkdirSync(brought, { recursive: true })
  symlinkSync(process.execPath, join(brought, 'node'))
  spawnSync(process.execPath, [join(checkout, 'bin/bootstrap.mjs')], { env: { PATH: '/nowhere' } })
  const asked = spawnSync(join(checkout, 'node_modules/.bin/node'), ['--version'], { encoding: 'utf8' })
  expect(asked.stdout).toBe(`${process.version}\n`)
})

test('an installation that a power cut has ended holds up no start, whoever has the number of its process now', () => {
  const checkout = filledCheckout('cut-off')
  const bootstrap = (life: string) => {
    rmSync(join(checkout, 'node_modules/.posthorn-lock-hash'), { force: true })
    mkdirSync(join(checkout, '.installing'))
    writeFileSync(join(checkout, '.installing/life'), life)
    writeFileSync(join(checkout, '.installing/pid'), String(process.pid))
    const env = { PATH: '/nowhere' }
    return spawnSync(process.execPath, [join(checkout, 'bin/bootstrap.mjs')], { env, encoding: 'utf8', timeout: 5_000 })
  }
  expect(bootstrap('0b0ffe1d-another-boot 4711')).toMatchObject({ status: 0, stderr: '' })
  expect(existsSync(join(checkout, '.installing'))).toBe(false)
  // One that runs is waited for.
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  const start = readFileSync(`/proc/${process.pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[19]
  expect(bootstrap(`${boot} ${start}`)).toMatchObject({ status: null, signal: 'SIGTERM' })
})

test('Ctrl-C in the first installation ends npm too, and the next one brings what a server needs and no more', async () => {
  const checkout = filledCheckout('given-up')
  rmSync(join(checkout, 'node_modules/.package-lock.json')) // npm writes it last
  const tools = join(folder, 'slow-npm')
  mkdirSync(tools)
  const npm = `#!/bin/sh\ntrap '' INT TERM\necho "$@ $$" >../said\necho began\nfor i in 1 2 3 4 5 6 7 8 9; do sleep 1; done\n`
  writeFileSync(join(tools, 'npm'), npm, { mode: 0o755 })
  const env = { PATH: `${tools}:${process.env['PATH']}` }
  const child = spawn(process.execPath, [join(checkout, 'bin/bootstrap.mjs')], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = once(child, 'exit')
  let said = ''
  for await (const text of child.stderr.setEncoding('utf8')) {
    said += text
    if (said.includes('began') && !child.killed) child.kill('SIGINT')
  }
  expect(said).toMatch(/^posthorn: installing dependencies, once\.\.\.$/m)
  expect(await ended).toEqual([130, null])
  const [, npmId] = / --omit=dev (\d+)\n$/.exec(readFileSync(join(folder, 'said'), 'utf8')) ?? []
  expect(existsSync(`/proc/${npmId}`)).toBe(false)
  expect(existsSync(join(checkout, '.installing'))).toBe(false)
})

test('what must not get into an image, the installation key first, is named where Docker and podman both look', () => {
  expect(read('.dockerignore').split('\n')).toEqual(
    expect.arrayContaining([
      '.git',
      '**/node_modules',
      'data',
      '*.backup',
      '**/.env*',
      '**/*.env',
      '**/*.pem',
      '**/secret-key',
    ]),
  )
  // podman would look there alone.
  expect(existsSync(join(root, '.containerignore'))).toBe(false)
})

test("a checkout that its owner's npm ci has filled, and the service's user may not write, needs nothing more", () => {
  const checkout = filledCheckout('checkout')
  for (const each of [folder, checkout]) chmodSync(each, 0o555)
  const another = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
  const bootstrap = () =>
    spawnSync('node', [join(checkout, 'bin/bootstrap.mjs')], { ...another, cwd: '/', encoding: 'utf8' })
  expect(bootstrap()).toMatchObject({ status: 0, stderr: '' })
  chmodSync(checkout, 0o755)
  rmSync(join(checkout, 'node_modules/pg'), { recursive: true })
  chmodSync(checkout, 0o555)
  expect(bootstrap()).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('run npm ci there as its owner') as string,
  })
  for (const each of [folder, checkout]) chmodSync(each, 0o755)
})

test('who installs or upgrades as a root whose files are for root alone still has what the user of the service can read', () => {
  const installs = [...read('docs/production.md').matchAll(/```sh\n([^]*?)```/g)].flatMap(([, block = '']) =>
    /^git clone .* \/opt\//m.test(block) ? [block] : [],
  )
  expect(installs).toHaveLength(2)
  for (const block of installs) expect(block).toMatch(/^umask 022\b/)
})

test('an upgrade builds the dashboard before the restart, while the release before still serves', async () => {
  const [, block = ''] =
    /```sh\n(umask 022\ngit clone [^]*?systemctl restart posthorn\n)```/.exec(read('docs/production.md')) ?? []
  const [build = ''] = /^bin\/node src\/dashboard-build\.ts/m.exec(block) ?? []
  await promisify(execFile)('/bin/sh', ['-c', build], { cwd: root, env: { PATH: process.env['PATH'] } })
  expect(build).not.toBe('')
  expect(readdirSync(join(root, 'dashboard/dist'))).not.toEqual([])
})

test('what the service logs of a backlog is within what the journal takes of it, and no fault is lost among it', () => {
  // systemd-journald drops what comes above a unit's LogRateLimitBurst in 30 seconds, whatever it says; a line is written for each attempt.
  const [, most = ''] = /^\| delivery of a backlog +\| ([\d,]+) \/s/m.exec(read('bench/README.md')) ?? []
  const linesPerSecond = Number(most.replace(',', ''))
  expect(linesPerSecond).toBeGreaterThan(1_000)
  const [, burst] = /^LogRateLimitBurst=(\d+)$/m.exec(read('ops/posthorn.service')) ?? []
  expect(Number(burst ?? 10_000)).toBeGreaterThan(linesPerSecond * 30)
})

test('the image gets what a first start makes beside the code and nothing of its data, and is not made where none succeeds', async () => {
  const [, run = ''] = /^RUN (export POSTHORN_DATA_DIR[^]*?[^\\])\n/m.exec(read('Containerfile')) ?? []
  const tmp = temporaryFolder()
  chmodSync(tmp, 0o755)
  const script = run.replaceAll('\\\n', '').replaceAll('/tmp/', `${tmp}/`)
  const build = (settings: Record<string, string>) =>
    promisify(execFile)('/bin/sh', ['-c', script], {
      cwd: root,
      env: { PATH: process.env['PATH'], HOME: tmp, ...settings },
    })
  await build({})
  expect(readdirSync(tmp)).toEqual([])
  expect(readdirSync(join(root, 'dashboard/dist'))).not.toEqual([])
  await expect(build({ POSTHORN_ROUTE: 'nowhere' })).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('POSTHORN_ROUTE') as string,
  })
})

test('the image names its user by number, since Kubernetes believes no name that it is not root; the guide says which', () => {
  const [, user] = /^USER (\S+)$/m.exec(read('Containerfile').split('VOLUME')[1] ?? '') ?? []
  expect(user).toMatch(/^[1-9]\d*$/)
  expect(read('docs/production.md')).toContain(`The number of the container's user \`node\` is ${user}`)
})

test('the container of the guide has inside what the settings of the guide name on the machine, and another proxy', () => {
  const guide = read('docs/production.md')
  const [recipe = ''] = /^podman run[^]*?```/m.exec(guide) ?? []
  const [sample = ''] = /^POSTHORN_HOSTNAME=[^]*?```/m.exec(guide) ?? []
  const named = [...sample.matchAll(/^(?!#)\w+=(?:unix:)?(\/\S+)$/gm)].map(([, path]) => path as string)
  expect(named.length).toBeGreaterThan(2)
  const mounted = [...recipe.matchAll(/ -v (\/[^: ]+):(\S+?)(?::ro)?(?= )/g)].filter(([, from, to]) => from === to)
  expect(named.filter((path) => !mounted.some(([, folder]) => path.startsWith(`${folder}/`)))).toEqual([])
  expect(sample).toContain('POSTHORN_TRUST_PROXY=127.0.0.1')
  expect(recipe).toMatch(/--env-file \/etc\/posthorn\.env -e POSTHORN_TRUST_PROXY=(?!127\.)/)
})

describe('the production guide', () => {
  test('has blocks to run', () => expect(blocks.length).toBeGreaterThan(8))

  test.each(blocks.map((block) => [block.trim().split('\n')[0] as string, block]))('%s', async (_, block) => {
    const env = { ...posthorn.env, PATH: `${join(folder, 'bin')}:${process.env['PATH']}`, URL: posthorn.url }
    const { stdout } = await promisify(execFile)('/bin/sh', ['-euc', block], { env, cwd: folder })
    if (block.startsWith('openssl')) expect(stdout.trim().length).toBeGreaterThanOrEqual(32)
    if (block.startsWith('posthorn')) expect(stdout).not.toBe('')
  })

  test('after all of it the installation still works', async () => {
    const checks = await posthorn.cli<{ checks: { name: string; status: string }[] }>('doctor')
    expect(checks.checks.filter(({ status, name }) => status === 'fail' && name !== 'disk')).toEqual([])
    expect(checks.checks.find(({ name }) => name === 'installation_key')?.status).toBe('ok')
  })
})

test('backups that are made each night: the newest stay, old ones go, and nothing else in their folder', async () => {
  const backups = join(folder, 'backups')
  mkdirSync(backups)
  const old = ['29990101T030000Z', '29990102T030000Z', '29990103T030000Z'].map((at) => `posthorn-${at}.backup`)
  const others = ['notes.txt', 'posthorn-before-upgrade.backup']
  const [cutOff, underWay] = old.map((name) => `${name}.unfinished`) as [string, string]
  for (const name of [...old, ...others, cutOff, underWay]) writeFileSync(join(backups, name), '')
  utimesSync(join(backups, cutOff), 0, 0)
  await promisify(execFile)(join(root, 'ops/backup-and-rotate'), [backups, '2'], { env: posthorn.env })
  // The new one stays, though a clock that was ahead has given the others later names.
  const isNew = (name: string) => /^posthorn-\d{8}T\d{6}Z\.backup$/.test(name) && !old.includes(name)
  const made = readdirSync(backups).filter(isNew)
  expect(made).toHaveLength(1)
  expect(readdirSync(backups).toSorted()).toEqual([...others, ...old.slice(2), ...made, underWay].toSorted())
  // A backup is named by its second.
  const second = () => new Date().toISOString().replace(/[-:]|\.\d+/g, '')
  await expect.poll(() => made[0]?.includes(second())).toBe(false)
  await promisify(execFile)(join(root, 'ops/backup-and-rotate'), [backups, '3'], { env: posthorn.env })
  expect(readdirSync(backups)).toHaveLength(6)
  // As soon as there are enough of the right time, those go first that the clock has named ahead of it.
  await expect.poll(() => readdirSync(backups).some((name) => name.includes(second()))).toBe(false)
  await promisify(execFile)(join(root, 'ops/backup-and-rotate'), [backups, '3'], { env: posthorn.env })
  expect(readdirSync(backups).filter(isNew)).toHaveLength(3)
  expect(readdirSync(backups)).not.toContain(old[2])
  const { checks } = await posthorn.cli<{ checks: { name: string; detail: string; status: string }[] }>('doctor')
  expect(checks.find(({ name }) => name === 'backup')).toMatchObject({
    status: 'ok',
    detail: expect.stringMatching(/^The last backup is 0 hours old, \d+ MB\.$/) as string,
  })
})

describe('alerts and dashboard', () => {
  const named = (text: string): string[] => [
    ...new Set([...text.matchAll(/\b(?:posthorn|process|nodejs)_[a-z_]+/g)].map(([name]) => name)),
  ]
  const families = async (): Promise<Map<string, string>> => {
    const text = await (await fetch(`http://127.0.0.1:${posthorn.env['POSTHORN_METRICS_PORT']}/metrics`)).text()
    return new Map([...text.matchAll(/^# TYPE (\S+) (\S+)/gm)].map((match) => [match[1] as string, match[2] as string]))
  }

  test.each(['ops/alerts.yml', 'ops/grafana-dashboard.json'])('%s names only numbers that exist', async (file) => {
    const known = await families()
    const names = named([...read(file).matchAll(/"?expr"?: (.*)/g)].map((match) => match[1]).join('\n'))
    expect(names.length).toBeGreaterThan(5)
    const exists = (name: string): boolean =>
      known.has(name) || known.get(name.replace(/_(?:bucket|sum|count)$/, '')) === 'histogram'
    expect(names.filter((name) => !exists(name))).toEqual([])
  })

  test('names in its words, too, only numbers that exist', async () => {
    const known = await families()
    const said = [...read('ops/alerts.yml').matchAll(/description: (.*)/g)].flatMap(([, words]) => named(words ?? ''))
    expect(said).toContain('posthorn_destination_paused')
    expect(said.filter((name) => !known.has(name))).toEqual([])
  })

  test('so do the pages', async () => {
    const known = await families()
    const pages = [
      'README.md',
      ...readdirSync(join(root, 'docs')).flatMap((name) => (name.endsWith('.md') ? [`docs/${name}`] : [])),
    ]
    const said = pages.flatMap((page) => named(read(page)))
    expect(said.length).toBeGreaterThan(20)
    expect(said.filter((name) => !known.has(name))).toEqual([])
  })

  test('mail that is all put off, or fails, has a rule: the age of the queue does not show it', () => {
    const rules = new Map(
      [...read('ops/alerts.yml').matchAll(/- alert: (\w+)\n +expr: (.*)/g)].map(([, name, expr]) => [name, expr]),
    )
    for (const [name, outcome] of [
      ['PosthornDeferred', 'retry'],
      ['PosthornDeferredAll', 'retry'],
      ['PosthornFailed', 'failed'],
    ] as const)
      expect(rules.get(name)).toContain(`posthorn_attempts_total{outcome="${outcome}"}`)
  })

  test('the queue and the domains are told as they are', async () => {
    const text = await (await fetch(`http://127.0.0.1:${posthorn.env['POSTHORN_METRICS_PORT']}/metrics`)).text()
    expect(text).toMatch(/^posthorn_queue_messages\{status="queued",process="[a-z]+"\} 0$/m)
    expect(text).toMatch(/^posthorn_queue_oldest_due_seconds\{process="[a-z]+"\} 0$/m)
    expect(text).toMatch(/^posthorn_domains\{status="verified",process="[a-z]+"\} [1-9]/m)
    expect(text).toMatch(/^posthorn_disk_free_bytes\{folder="\/\S+",process="main"\} [1-9]/m)
    // What alerts count is there before the first of it.
    expect(text).toMatch(/^posthorn_refused_total\{code="service_unavailable",process="main"\} 0$/m)
    expect(text).toMatch(/^posthorn_reports_total\{type="complaint",outcome="recorded",process="main"\} 0$/m)
    expect(text).toMatch(/^posthorn_bounces_total\{class="policy",type="soft_bounce",process="[a-z]+"\} 0$/m)
    expect(text).toMatch(
      /^posthorn_reports_total\{class="policy",type="soft_bounce",outcome="recorded",process="main"\} 0$/m,
    )
    expect(text).toMatch(/^posthorn_bounces_total\{class="bad_mailbox",type="hard_bounce",process="[a-z]+"\} 0$/m)
  })

  test('the dashboard is one that Grafana reads: panels with targets, each on the chosen source', () => {
    const { panels } = JSON.parse(read('ops/grafana-dashboard.json')) as {
      panels: { id: number; title: string; targets: { expr: string }[]; gridPos: { x: number; w: number } }[]
    }
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    for (const { targets, gridPos } of panels) {
      expect(targets.every(({ expr }) => expr.length > 0)).toBe(true)
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24)
    }
  })
})
