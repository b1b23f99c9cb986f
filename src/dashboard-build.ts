// Builds the dashboard where it has not been built from these very sources yet: at the first start, and after each change. The result lies
// in a folder that is named after the hash of all that it is made of, so a start finds it by its name, and two starts at once do no harm.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeFolders } from './base/folders.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const source = join(root, 'dashboard')
const wordsMax = 4_000

/** The folder of the built dashboard. `besides` is where it is put when the checkout cannot be written. Throws with the builder's words. */
export async function builtDashboard(
  besides: string,
  tell: (sentence: string) => void,
  giveUp?: AbortSignal,
): Promise<string> {
  const name = sourceHash()
  const places = [join(source, 'dist'), join(besides, 'dashboard')]
  const found = places.map((place) => join(place, name)).find((folder) => existsSync(join(folder, 'index.html')))
  if (found !== undefined) return found
  const place = places.find(canHold)
  if (place === undefined) throw new Error(`neither ${places.join(' nor ')} can be written`)
  tell('building the dashboard, once...')
  const unfinished = join(place, `.${name}.${process.pid}`)
  await build(unfinished, giveUp)
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

function canHold(place: string): boolean {
  try {
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
async function build(outDir: string, giveUp: AbortSignal | undefined): Promise<void> {
  const vite = join(root, 'node_modules/vite/bin/vite.js')
  // `native`: by another loader it would write beside its own files, which may be another user's.
  const child = spawn(
    process.execPath,
    [vite, 'build', '--configLoader', 'native', '--outDir', outDir, '--emptyOutDir', '--logLevel', 'warn'],
    {
      cwd: source,
      env: { NODE_ENV: 'production' },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  let words = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (piece: Buffer) => (words = `${words}${piece.toString()}`.slice(-wordsMax)))
  const end = () => child.kill()
  giveUp?.addEventListener('abort', end, { once: true })
  const [status] = (await once(child, 'close')) as [number | null]
  giveUp?.removeEventListener('abort', end)
  if (status === 0) return
  rmSync(outDir, { recursive: true, force: true })
  throw new Error(`vite build ended with ${status}: ${words.trim()}`)
}

/** Builds of other sources, and what a start that was killed left behind; not what another start may be writing at this moment. */
function forgetOthers(place: string, name: string): void {
  for (const other of readdirSync(place)) {
    const folder = join(place, other)
    if (other === name || (other.startsWith('.') && Date.now() - statSync(folder).mtimeMs < 3600_000)) continue
    rmSync(folder, { recursive: true, force: true })
  }
}
