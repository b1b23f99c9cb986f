// The entry: reads arguments and environment, then serves or runs one command. Each loads only its own half of the house.
import { writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { mistakesInTlsFiles } from './base/certificate.ts'
import { freePorts } from './base/free-ports.ts'
import { Trouble } from './base/trouble.ts'
import { listeningPorts, readSettings, whyWrong, WrongSettings } from './config.ts'

// Of the delivery process: signing happens on these threads, and more of them than cores only take turns with its event loop.
process.env['UV_THREADPOOL_SIZE'] ??= String(Math.max(2, availableParallelism()))

// PostgreSQL's own variables name no database of ours: DATABASE_URL does (docs/config.md). A password may come from PGPASSWORD.
for (const name of Object.keys(process.env)) if (/^PG(?!PASSWORD$|PASSFILE$)/.test(name)) delete process.env[name]

// Whoever read our output may have gone, or its disk be full. The service goes on without; a command has failed, and ends as it would have.
let unwritten = 0
process.stderr.on('error', () => undefined)
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  if (process.argv[2] === 'serve') return
  if (code !== 'EPIPE') process.stderr.write(`posthorn: standard output cannot be written (${code})\n`)
  process.exitCode = unwritten = 1
})

process.exitCode = (await main(process.argv.slice(2))) || unwritten

async function main(args: readonly string[]): Promise<number> {
  const roles = args[0] === 'serve' ? readServeArguments(args.slice(1)) : undefined
  if (roles === undefined || (roles !== '' && whyWrong('POSTHORN_ROLES', roles) !== undefined)) {
    const { runCli } = await import('./cli/cli.ts')
    return runCli(args, () => readSettings(process.env))
  }
  try {
    if (roles !== '') process.env['POSTHORN_ROLES'] = roles // for the delivery process, too
    await chooseFreePorts(process.env)
    const settings = readSettings(
      process.env,
      // Before anything is made, and only where they are shown to anybody.
      (read) =>
        read.POSTHORN_ROLES.some((role) => role === 'smtp' || role === 'feedback') ? mistakesInTlsFiles(read) : [],
    )
    const [{ serve }, { makeLog }] = await Promise.all([import('./serve.ts'), import('./base/log.ts')])
    return await serve(settings, makeLog(settings.POSTHORN_LOG_LEVEL), tellReady)
  } catch (error) {
    if (!(error instanceof WrongSettings || error instanceof Trouble)) throw error
    process.stderr.write(`${error instanceof Trouble ? 'posthorn: ' : ''}${error.message}\n`)
    return 1
  }
}

/** In the folder that systemd makes for one run of the service: ops/wait-until-ready waits for it. */
function tellReady(): void {
  const folder = process.env['RUNTIME_DIRECTORY']
  if (folder) writeFileSync(join(folder, 'ready'), `${process.pid}\n`)
}

/** Before anything is read: what is printed, and the origin that browsers are held to, must name the port that was taken, in both processes. */
async function chooseFreePorts(environment: NodeJS.ProcessEnv): Promise<void> {
  const open = listeningPorts.filter((name) => /^0+$/.test(environment[name] ?? ''))
  const ports = await freePorts(open.length)
  for (const [at, name] of open.entries()) environment[name] = String(ports[at])
}

/** The roles, empty where none are given; anything else than `--roles R` is for the command line's help and complaints. */
function readServeArguments(args: readonly string[]): string | undefined {
  if (args.length === 0) return ''
  if (args.length === 1 && args[0]?.startsWith('--roles=') === true) return args[0].slice('--roles='.length)
  if (args.length === 2 && args[0] === '--roles') return args[1]
  return undefined
}
