// Installs what is missing, and nothing when nothing is. Runs under the machine's own Node (20 or newer; it parses under older ones,
// to say so), before the Node that the project brings exists. `--dev` asks for everything that the tests need.
//
// What is installed is known by content, never by time stamps: node_modules/.posthorn-lock-hash holds the hash of package-lock.json
// and the level, `prod` or `full`. `full` satisfies both questions, and a stale `full` is renewed as `full`, so `npm start` and
// `npm test` in turn do not install for ever.
import { spawn, spawnSync } from 'node:child_process'
import * as crypto from 'node:crypto'
import * as fs from 'node:fs'
import { constants, homedir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const modules = join(root, 'node_modules')
const marker = join(modules, '.posthorn-lock-hash')
const lock = join(root, '.installing')
const projectNode = join(modules, '.bin', 'node')
const wanted = process.argv.includes('--dev') ? 'full' : 'prod'

/**
 * What somebody's .npmrc says for other projects must not lay ours out otherwise, or leave a part of it out. Registry, proxies and certificates are theirs
 * to say. Packages name the Node that is brought, and not the one that npm runs on: no engine is strict here.
 */
const ours = [
  ...['--engine-strict=false', '--include=optional', '--bin-links=true', '--install-strategy=hoisted'],
  ...['--global=false', '--dry-run=false', '--package-lock-only=false'],
]

if (Number(process.versions.node.split('.')[0]) < 20)
  stop(`Posthorn needs Node 20 or newer to install itself, and this is ${process.version}: install a newer Node (https://nodejs.org).`)
try {
  await bootstrap()
} catch (error) {
  stop(`Posthorn could not install what it needs in ${root}: ${error.message}.`)
}

async function bootstrap() {
  const hash = crypto.createHash('sha256').update(fs.readFileSync(join(root, 'package-lock.json'))).digest('hex')
  if (satisfied(hash)) return
  try {
    fs.accessSync(root, fs.constants.W_OK)
  } catch {
    // Its owner's own npm ci is as good; whoever may not write here cannot mark it, and looks again at every start.
    if (complete(wanted)) return
    stop(`Posthorn must install its dependencies, but the folder ${root} cannot be written: run npm ci there as its owner.`)
  }
  await withLock(async () => {
    if (satisfied(hash)) return // another bootstrap did it while we waited
    const level = wanted === 'full' || !isWhole() ? wanted : levelBefore()
    if (!complete(level)) await install(level)
    checkNode()
    fs.writeFileSync(`${marker}.new`, `${hash} ${level}\n`)
    fs.renameSync(`${marker}.new`, marker)
  })
}

function satisfied(hash) {
  const [installed, level] = readMarker()
  return installed === hash && (level === wanted || level === 'full')
}

function readMarker() {
  try {
    return fs.readFileSync(marker, 'utf8').trim().split(' ')
  } catch {
    return [] // not installed by us, or not to the end
  }
}

/** npm writes this file last: without it an installation was cut off, and holds nobody's tools. */
function isWhole() {
  return fs.existsSync(join(modules, '.package-lock.json'))
}

/**
 * What a stale node_modules held, so that nobody's tools disappear. One that we do not know is a developer's, unless all that a server needs is in
 * it: that is somebody's own `npm ci --omit=dev`, and another one would take node_modules away under a service that runs.
 */
function levelBefore() {
  return readMarker()[1] ?? (complete('prod') ? 'prod' : 'full')
}

/** True when somebody's own `npm ci` has installed exactly what the lock file asks for. */
function complete(level) {
  try {
    const asked = JSON.parse(fs.readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
    const there = JSON.parse(fs.readFileSync(join(modules, '.package-lock.json'), 'utf8')).packages
    return Object.entries(asked).every(
      ([path, entry]) =>
        path === '' ||
        (level === 'prod' && entry.dev) ||
        // npm writes down what `npm install --package-lock-only` would install, too: the folder itself must be there.
        (there[path] && fs.existsSync(join(root, path))
          ? there[path].version === entry.version
          : entry.optional || entry.devOptional),
    )
  } catch {
    return false
  }
}

/** npm fetches nothing where it cannot keep it, as for a user without a home: then it gets a folder that goes with our lock. */
function hasCache() {
  try {
    let place = join(process.env.npm_config_cache || join(homedir(), '.npm'), '_cacache')
    while (!fs.existsSync(place)) place = dirname(place)
    fs.accessSync(`${place}/.`, fs.constants.W_OK)
    return true
  } catch {
    return false
  }
}

async function install(level) {
  process.stderr.write(`posthorn: installing dependencies${level === 'full' ? ' (with those of the tests)' : ''}, once...\n`)
  // Our own node_modules/.bin must not lend npm the node that it is about to replace.
  const path = (process.env.PATH || '').split(delimiter).filter((entry) => !entry.startsWith(modules))
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error', '--ignore-scripts', '--no-update-notifier', ...ours]
  const cache = hasCache() ? {} : { npm_config_cache: join(lock, 'npm') }
  // Asked to end, npm goes on writing for up to 20 seconds, and whoever starts again meanwhile would install into the same folder. What is cut off here
  // is begun anew. We listen before it begins: it is quick to say something, and whoever answers with Ctrl-C would end us alone.
  let npm
  let asked
  const giveUp = (signal) => {
    asked = signal
    npm.kill('SIGKILL')
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, giveUp)
  npm = spawn('npm', level === 'prod' ? [...args, '--omit=dev'] : [...args, '--include=dev'], {
    cwd: root,
    env: { ...process.env, ...cache, PATH: path.join(delimiter), NODE_ENV: '' },
    stdio: ['ignore', process.stderr.fd, 'inherit'],
  })
  const [status, signal, error] = await new Promise((resolve) => {
    npm.on('error', (error) => resolve([null, null, error]))
    npm.on('close', (status, signal) => resolve([status, signal]))
  })
  if (asked) process.exit(128 + constants.signals[asked])
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(signal, giveUp)
  if (error && error.code === 'ENOENT')
    stop('Posthorn needs npm to install its dependencies, and there is none in PATH: install it (it comes with Node).')
  if (error) throw error
  if (status !== 0)
    stop(`npm ci failed (${signal || `status ${status}`}) in ${root}: its words above say why; try again when that is mended.`)
}

/** The Node that will run Posthorn: from npm where there is a package for this platform, else the machine's. */
function checkNode() {
  // npm 8 takes the link away again, with that of the package for another processor, which it does not keep.
  const folder = `node-${process.platform}-${process.arch}`
  if (!fs.existsSync(projectNode) && fs.existsSync(join(modules, folder, 'bin', 'node'))) {
    fs.mkdirSync(dirname(projectNode), { recursive: true })
    fs.rmSync(projectNode, { force: true })
    fs.symlinkSync(join('..', folder, 'bin', 'node'), projectNode)
  }
  const brought = fs.existsSync(projectNode)
  if (brought && spawnSync(projectNode, ['--version'], { stdio: 'ignore' }).status === 0) return
  // As bin/node asks: 24 has it from 24.16 on, and 26 from 26.1 on.
  if (typeof crypto.randomUUIDv7 === 'function') {
    if (brought) fs.unlinkSync(projectNode) // made for another libc: bin/node then takes the machine's
    return
  }
  stop(
    `npm brings no Node 24 that runs on this machine (${process.platform} ${process.arch}), and its own is ${process.version}, where 24.16 or newer is needed: install the newest Node 24 and start again.`,
  )
}

/** One installer at a time: a folder is made by one process only. It is not inside node_modules, which npm ci deletes. */
async function withLock(work) {
  for (let told = false; ; ) {
    try {
      fs.mkdirSync(lock)
      break
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    if (isStale()) {
      const old = `${lock}.${process.pid}`
      try {
        // Of one of our number that was killed here; in a container it is always the same.
        fs.rmSync(old, { recursive: true, force: true })
        fs.renameSync(lock, old) // only one of several gets it
        fs.rmSync(old, { recursive: true, force: true })
      } catch (error) {
        if (error.code !== 'ENOENT') throw error
      }
      continue
    }
    if (!told) process.stderr.write('posthorn: another process is installing dependencies, waiting for it...\n')
    told = true
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  const release = () => fs.rmSync(lock, { recursive: true, force: true })
  process.on('exit', release) // stop() ends the process
  fs.writeFileSync(join(lock, 'life'), lifeOf(process.pid))
  fs.writeFileSync(join(lock, 'pid'), String(process.pid))
  await work()
  process.off('exit', release) // by then the lock may be another's
  release()
}

/**
 * What tells a process from the next one of its number, as there is behind a power cut: the boot and its start since then. Empty where the system
 * does not say.
 */
function lifeOf(pid) {
  try {
    const boot = fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    // Behind the name, which may have anything in it, the twentieth (proc_pid_stat(5), starttime).
    const start = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').pop().split(' ')[19]
    return `${boot} ${start}`
  } catch {
    return ''
  }
}

/** True when the installer that made the lock has died. */
function isStale() {
  try {
    const pid = Number(fs.readFileSync(join(lock, 'pid'), 'utf8'))
    if (!(pid > 0)) return Date.now() - fs.statSync(lock).mtimeMs > 5000
    if (!isAlive(pid)) return true
    const life = join(lock, 'life')
    const [made, now] = [fs.existsSync(life) ? fs.readFileSync(life, 'utf8') : '', lifeOf(pid)]
    return made !== '' && now !== '' && made !== now
  } catch (error) {
    if (error.code !== 'ENOENT') return false
    // Between making the folder and writing the number lies a moment.
    return fs.existsSync(lock) && Date.now() - fs.statSync(lock).mtimeMs > 5000
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code !== 'ESRCH' // EPERM: it lives, and is somebody else's
  }
}

function stop(sentence) {
  process.stderr.write(`${sentence}\n`)
  process.exit(1)
}
