// The TypeScript of both READMEs and of docs/webhooks.md, as it stands there, through the compiler as strictly as customers have it; and the line
// that packs the package.
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const sdk = fileURLToPath(new URL('..', import.meta.url))
const pages = ['README.md', '../README.md', '../docs/webhooks.md']
const examples = pages.flatMap((page) =>
  [...readFileSync(join(sdk, page), 'utf8').matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text),
)
/** What the examples take for granted. */
const around = `
import type { MessageToSend, WebhookEvent } from '@posthorn/client'
declare global {
  const bytes: Uint8Array
  const mailboxId: string
  const message: MessageToSend
  let saved: string | undefined
  function handle(event: WebhookEvent): Promise<void>
  function markAddressAsBad(address: string): Promise<void>
  function askForAnother(address: string): Promise<void>
  function sendLater(message: MessageToSend, idempotencyKey: string | undefined): Promise<void>
}
`

test('every example compiles', async () => {
  expect(examples.length).toBeGreaterThanOrEqual(5)
  const folder = mkdtempSync(join(sdk, '.build-'))
  try {
    const ours = (text: string) => text.replaceAll("'@posthorn/client'", "'../src/index.ts'")
    writeFileSync(join(folder, 'around.ts'), ours(around))
    const errors = "import { PosthornApiError, PosthornConnectionError } from '@posthorn/client'\n"
    const client = "import type { Posthorn } from '@posthorn/client'\ndeclare const posthorn: Posthorn\n"
    for (const [index, text] of examples.entries()) {
      const before = text.startsWith('import') ? '' : client + errors
      writeFileSync(join(folder, `${index}.ts`), ours(`${before}${text}\nexport {}\n`))
    }
    const compilerOptions = { exactOptionalPropertyTypes: true, noUnusedLocals: false, types: ['node'] }
    const config = { extends: '../../tsconfig.json', compilerOptions, include: ['*.ts'] }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
    const compiler = join(sdk, '../node_modules/typescript/bin/tsc')
    const answer = promisify(execFile)(process.execPath, [compiler, '-p', folder]).catch(
      (error: { stdout: string }) => error,
    )
    expect((await answer).stdout).toBe('')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the package is packed with its code, also where npm is set to run no scripts', async () => {
  const [, options = ''] = /npm pack -w sdk(.*?) *#/.exec(readFileSync(join(sdk, 'README.md'), 'utf8')) ?? []
  const folder = mkdtempSync(join(sdk, '.build-'))
  try {
    cpSync(join(sdk, '../tsconfig.json'), join(folder, 'tsconfig.json'))
    const copy = join(folder, 'sdk')
    for (const part of ['package.json', 'tsconfig.build.json', 'README.md', 'src'])
      cpSync(join(sdk, part), join(copy, part), { recursive: true })
    const args = ['pack', '--json', '--dry-run', ...options.split(' ').filter(Boolean)]
    const { stdout } = await promisify(execFile)('npm', args, {
      cwd: copy,
      env: { ...process.env, npm_config_ignore_scripts: 'true' },
    })
    for (const file of ['dist/index.js', 'dist/index.d.ts']) expect(stdout).toContain(`"${file}"`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
