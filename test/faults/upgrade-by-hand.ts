// npm run upgrade -- COMMIT [--messages 600] [--seed N]: a rolling upgrade from that release to this one, under load. Ends with 1 when the promise was
// broken, or the node of the release before complained.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runUpgrade } from './upgrade.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    messages: { type: 'string', default: '600' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
})
const [commit] = positionals
if (commit === undefined) throw new Error('name the release before: npm run upgrade -- v1.2.3')
const root = join(import.meta.dirname, '../..')
const checkout = mkdtempSync(join(tmpdir(), 'posthorn-before-'))
const say = (words: string) => process.stdout.write(`${words}\n`)
try {
  const archive = execFileSync('git', ['-C', root, 'archive', commit], { maxBuffer: 1024 * 1024 * 1024 })
  execFileSync('tar', ['x', '-C', checkout], { input: archive })
  const lockOf = (folder: string) => readFileSync(join(folder, 'package-lock.json'), 'utf8')
  if (lockOf(root) === lockOf(checkout) && existsSync(join(root, 'node_modules')))
    execFileSync('cp', ['-al', join(root, 'node_modules'), checkout])
  rmSync(join(checkout, 'node_modules/.cache'), { recursive: true, force: true })
  // With another lock file it installs what it needs, which may take longer than a start has time.
  execFileSync('node', [join(checkout, 'bin/bootstrap.mjs')], { stdio: 'inherit' })

  const { breaches, complaints, back, counts } = await runUpgrade({
    checkout,
    messages: Number(values.messages),
    seed: Number(values.seed),
    say,
  })
  for (const [what, figure] of Object.entries(counts)) say(`${String(figure).padStart(8)} ${what}`)
  for (const words of breaches.slice(0, 50)) say(`BREACH ${words}`)
  for (const words of complaints.slice(0, 50)) say(`COMPLAINT ${words}`)
  say(`the release before, started again on this schema: ${back}`)
  const kept = breaches.length === 0 && complaints.length === 0
  say(kept ? 'kept' : `BROKEN (${breaches.length} breaches, ${complaints.length} complaints)`)
  process.exitCode = kept ? 0 : 1
} finally {
  rmSync(checkout, { recursive: true, force: true })
}
