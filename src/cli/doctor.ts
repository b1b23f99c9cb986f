// `posthorn doctor`: what is well, what is not, and what to do. It also answers where the database cannot be reached.
import type { Command } from 'commander'
import { makeScanner } from '../accept/accept.ts'
import { providerOf, visitRelay } from '../deliver/deliver.ts'
import { examine, type Check, type DoctorTools } from '../doctor/doctor.ts'
import { WrongInstallationKey } from '../store/mac-root.ts'
import { Mistake, readSystemSender } from '../workspace/workspace.ts'
import { sentenceOf } from './print.ts'
import type { Cli } from './tools.ts'

export function doctorCommand(program: Command, cli: Cli): void {
  program
    .command('doctor')
    .description('look at everything that the installation needs, and say what to do')
    .option('--strict', 'end with status 1 where a check failed')
    .action(async ({ strict }: { strict?: true }) => {
      const checks = await examineHere(cli)
      cli.show({ checks }, () => checks.map(line).join('\n'))
      if (strict === true && checks.some(({ status }) => status === 'fail')) throw new Mistake('A check failed.')
    })
}

async function examineHere(cli: Cli): Promise<readonly Check[]> {
  const settings = cli.settings()
  const scanner = makeScanner(settings.POSTHORN_CLAMD)
  const visit: DoctorTools['visit'] = (relay, withinMs) => visitRelay(settings, relay, withinMs)
  const systemSender: DoctorTools['systemSender'] = (db, vault) => readSystemSender({ db, vault, settings })
  const look = (database: DoctorTools['database']) =>
    examine({ settings, database, scanner, visit, systemSender, providerOf })
  let checks: readonly Check[] | undefined
  try {
    await cli.withExisting(async ({ db, vault }) => {
      checks = await look({ db, vault })
    })
  } catch (error) {
    checks ??= await look({ trouble: sentenceOf(error), wrongKey: error instanceof WrongInstallationKey })
  } finally {
    await scanner.stop()
  }
  return checks ?? []
}

const signs = { ok: 'ok   ', warn: 'WARN ', fail: 'FAIL ', skipped: '-    ' } as const

const line = ({ name, status, detail }: Check): string => `${signs[status]} ${name.padEnd(18)}${detail}`
