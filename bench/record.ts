// Dated results, the newest first, in bench/README.md below its line of explanation.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { cores } from './cpu.ts'

const readme = fileURLToPath(new URL('README.md', import.meta.url))
const title = '## Results'

export function record(table: string, about: string): void {
  const text = fs.readFileSync(readme, 'utf8')
  const [before, after] = text.split(`${title}\n`)
  if (before === undefined || after === undefined) throw new Error(`${readme} has no line "${title}"`)
  const day = new Date().toISOString().slice(0, 10)
  const entry = `### ${day}, ${commit()}\n\n${about}\n\n${table}\n`
  fs.writeFileSync(readme, `${before}${title}\n\n${entry}\n${after.replace(/^\n+/, '')}`)
  console.log(`Recorded in ${readme}.`)
}

function commit(): string {
  const git = (...args: string[]): string =>
    execFileSync('git', args, { cwd: fileURLToPath(new URL('..', import.meta.url)), encoding: 'utf8' }).trim()
  try {
    const changed = git('status', '--porcelain', '--', 'src') === '' ? '' : ' with changes'
    return `${git('rev-parse', '--short', 'HEAD')}${changed}`
  } catch {
    return 'no commit'
  }
}

/** tmpfs, where a commit costs nothing and a comparison of durable things means nothing. */
const tmpfs = 0x01021994

export function machine(temporary: string): string {
  const memory = Math.round(totalmem() / 2 ** 30)
  const unsafe =
    fs.statfsSync(temporary).type === tmpfs
      ? '; WARNING: the temporary folder is in memory, so nothing was durable'
      : ''
  return `${cores} cores of ${cpus()[0]?.model.trim() ?? 'unknown'}, ${memory} GiB, Node ${process.versions.node}${unsafe}`
}
