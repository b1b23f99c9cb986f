// Builds the dashboard where it has not been built from these very sources yet: at the first start, and after each change. The result lies
// in a folder that is named after the hash of all that it is made of, so a start finds it by its name, and two starts at once do no harm.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { dataFolderMode } from './base/data-folder.ts'
import { makeFolders } from './base/folders.ts'
import { limits } from './config.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const source = join(root, 'dashboard')
const wordsMax = 4_000
// The builder's allocator (mimalloc) asks for huge pages and fills a part of each: without them, and with a small nursery, it takes 280 MB instead of
// 450, in the same time. Beside a service that runs, as at an upgrade, a machine with 1 GB has no more.
const small = '--max-semi-space-size=2'
const withoutHugePages = { MIMALLOC_ALLOW_THP: '0', MIMALLOC_ARENA_EAGER_COMMIT: '0' }

/** The folder of the built dashboard. `besides` is where it is put when the checkout cannot be written. Throws with the builder's words. */
export async function builtDashboard(
  besides: string,
  tell: (sentence: string) => void,
  giveUp?: AbortSignal,
  lateMs: number = limits.dashboardBuildMs,
): Promise<string> {
  const name = sourceHash()
  const places = [join(source, 'dist'), join(besides, 'dashboard')]
  const found = places.map((place) => join(place, name)).find((folder) => existsSync(join(folder, 'index.html')))
  if (found !== undefined) return found
  const place = places.find((each) => canHold(each, besides))
  if (place === undefined) throw new Error(`neither ${places.join(' nor ')} can be written`)
  tell('building the dashboard, once...')
  const unfinished = join(place, `.${name}.${process.pid}`)
  await build(unfinished, giveUp, lateMs)
  const folder = join(place, name)
  try {
    renameSync(unfinished, folder)
  } catch (error) {
    if (!existsSync(join(folder, 'index.html'))) throw error // else another start was quicker
    rmSync(unfinished, { recursive: true, force: true })
  }
  forgetOthers(place, name)
  return folder
}

// As a program, for an upgrade: built beside the release that still serves, and not while nobody does (docs/production.md).
if (import.meta.main) await builtDashboard(source, (sentence) => process.stderr.write(`posthorn: ${sentence}\n`))

/** Of everything that the build reads: names and bytes of the sources, and the versions of its tools. */
function sourceHash(): string {
  const hash = createHash('sha256').update(readFileSync(join(root, 'package-lock.json')))
  const files = readdirSync(source, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(source.length + 1))
    .filter((file) => !/^(?:dist|node_modules)[/\\]/.test(file))
    .sort()
  for (const file of files) hash.update(`${file}\0`).update(readFileSync(join(source, file)))
  return hash.digest('hex').slice(0, 16)
}

/** The data folder may not be there yet. */
function canHold(place: string, besides: string): boolean {
  try {
    if (dirname(place) === besides) makeFolders(besides, dataFolderMode())
    makeFolders(place, 0o777)
    const probe = join(place, `.probe.${process.pid}`)
    mkdirSync(probe)
    rmSync(probe, { recursive: true })
    return true
  } catch {
    return false
  }
}

/** In a process of its own: the builder and its memory are gone afterwards. */
async function build(outDir: string, giveUp: AbortSignal | undefined, lateMs: number): Promise<void> {
  const vite = join(root, 'node_modules/vite/bin/vite.js')
  // `native`: by another loader it would write beside its own files, which may be another user's.
  const child = spawn(
    process.execPath,
    [small, vite, 'build', '--configLoader', 'native', '--outDir', outDir, '--emptyOutDir', '--logLevel', 'warn'],
    {
      cwd: source,
      env: { NODE_ENV: 'production', ...withoutHugePages },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  goesFirst(child.pid)
  let words = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (piece: Buffer) => (words = `${words}${piece.toString()}`.slice(-wordsMax)))
  // A machine with too little memory is not always out of it: then a build goes on and on, and is slow even to hear that it shall end.
  const late = AbortSignal.timeout(lateMs)
  const ends = giveUp === undefined ? late : AbortSignal.any([giveUp, late])
  const end = () => child.kill('SIGKILL')
  ends.addEventListener('abort', end, { once: true })
  const [status, signal] = (await once(child, 'close')) as [number | null, string | null]
  ends.removeEventListener('abort', end)
  if (status === 0) return
  rmSync(outDir, { recursive: true, force: true })
  if (giveUp?.aborted === true) throw new Error('the build was given up')
  if (late.aborted)
    throw new Error(`it had not ended after ${lateMs / 1000} s: is there enough memory? ${words.trim()}`.trim())
  // Nobody but the kernel, where there is no memory left, ends it so.
  if (signal === 'SIGKILL') throw new Error('the machine has ended its build (SIGKILL), as where its memory is full')
  throw new Error(`vite build ended with ${signal ?? `status ${status}`}: ${words.trim()}`)
}

/** Where memory runs out while it is built beside the service, the kernel ends the build and not the service (as of commands: bin/posthorn). A wish. */
function goesFirst(pid: number | undefined): void {
  try {
    if (process.platform === 'linux' && pid !== undefined) writeFileSync(`/proc/${pid}/oom_score_adj`, '1000')
  } catch {}
}

/** Builds of other sources, and what a start that was killed left behind; not what another start may be writing at this moment. */
function forgetOthers(place: string, name: string): void {
  for (const other of readdirSync(place)) {
    const folder = join(place, other)
    // One that ends at this moment renames its own, or takes it away.
    const { mtimeMs = 0 } = statSync(folder, { throwIfNoEntry: false }) ?? {}
    if (other === name || (other.startsWith('.') && Date.now() - mtimeMs < 3600_000)) continue
    rmSync(folder, { recursive: true, force: true })
  }
}
