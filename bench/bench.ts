// npm run bench: measures acceptance over REST and SMTP, delivery, webhooks, memory and the second start, against the peers in bench/peers, in turn on this
// machine, and prints one table. README.md says how it is done. Ends with 1 when something could not be measured; a figure that is not
// reached is told, and is no failure: machines differ.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { calibrationOf, disturbanceOf } from './health.ts'
import type { Calibration } from './health.ts'
import { readOptions, usage } from './options.ts'
import type { Options } from './options.ts'
import { measureRsaLimit } from './peers/rsa-limit.ts'
import { endAll, findProgram, temporaryFolder } from './processes.ts'
import { machine, record } from './record.ts'
import { deliveryRows, runDelivery } from './rows/delivery.ts'
import { idleRows, runIdle } from './rows/idle.ts'
import { largeRows, runLarge } from './rows/large.ts'
import { messagesRows, runMessages } from './rows/messages.ts'
import { queueRows, runQueue } from './rows/queue.ts'
import { restRows, runRest } from './rows/rest.ts'
import { runSubmission, submissionRows } from './rows/submission.ts'
import { runWebhooks, webhookRows } from './rows/webhooks.ts'
import { sharesOf, tableOf } from './table.ts'
import type { Row } from './table.ts'

let interrupted = false
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    // Ctrl-C comes twice: from the terminal, and from npm. What has been started must be ended all the same.
    if (interrupted) return
    interrupted = true
    void endAll().finally(() => process.exit(signal === 'SIGINT' ? 130 : 143))
  })

const options = readOptions(process.argv.slice(2))
if (typeof options === 'string') {
  console.error(`bench: ${options}\n${usage}`)
  process.exit(2)
}
try {
  spawnSync(fileURLToPath(new URL('setup.sh', import.meta.url)), { stdio: 'inherit' })
  await bench(options)
} catch (error) {
  // What fails after Ctrl-C fails because its other half has been ended.
  if (!interrupted) console.error('bench:', error)
  process.exitCode = 1
} finally {
  await endAll()
}

async function bench(options: Options): Promise<void> {
  const began = performance.now()
  const temporary = temporaryFolder()
  const { rsaSeconds } = options
  const rows = possible(options.rows)
  const idle = rows.has('memory') || rows.has('start') ? await runIdle({ ...options, rows }, temporary) : undefined
  const rest = rows.has('rest') ? await runRest(options, temporary) : undefined
  const large = rows.has('large') ? await runLarge(options, temporary) : undefined
  const delivery = rows.has('delivery') ? await runDelivery(options, temporary) : undefined
  const submission = rows.has('submission') ? await runSubmission(options, temporary) : undefined
  const webhooks = rows.has('webhooks') ? await runWebhooks(options, temporary) : undefined
  const queue = rows.has('queue') ? await runQueue(options, temporary) : undefined
  const messages = rows.has('messages') ? await runMessages(options, temporary) : undefined
  const rsa = delivery?.rsa ?? (rest === undefined ? [] : [await measureRsaLimit(rsaSeconds)])
  const calibration: Calibration = {
    rsa: rsa.map(({ perSecond }) => perSecond),
    inMemory: rest?.many.inMemory.map(({ perSecond }) => perSecond) ?? [],
  }
  const table: Row[] = [
    ...(rest === undefined ? [] : restRows(rest, calibration)),
    ...(large === undefined ? [] : largeRows(large)),
    ...(delivery === undefined ? [] : deliveryRows(delivery, calibration)),
    ...(submission === undefined ? [] : submissionRows(submission)),
    ...(webhooks === undefined ? [] : webhookRows(webhooks)),
    ...(idle === undefined ? [] : idleRows(idle, rows)),
    ...(queue === undefined ? [] : queueRows(queue, options.smoke)),
    ...(messages === undefined ? [] : messagesRows(messages)),
  ]
  const measured = [
    ...(rest === undefined
      ? []
      : [rest.many, rest.few].flatMap(({ ours, naive, inMemory }) => [...ours, ...naive, ...inMemory])),
    ...rsa,
    ...(delivery?.ours ?? []),
    ...(webhooks?.ours ?? []),
  ]
  const minutes = ((performance.now() - began) / 60_000).toFixed(1)
  const facts = [
    machine(temporary),
    `pairs: ${options.pairs}`,
    calibrationOf(calibration),
    disturbanceOf(measured.map(({ usage }) => usage)),
    `${minutes} minutes`,
  ]
  const about = facts.filter((fact) => fact !== '').join('; ')
  const result = [tableOf(table), sharesOf(table)]
    .filter((part) => part !== '')
    .join('\n\nCores used, the pair in the middle:\n\n')
  console.log(`\n${result}\n\n${about}`)
  if (options.smoke) console.log('A smoke run: it shows that the bench works, and nothing about speed.')
  else if (options.record) record(result, about)
}

/** Without the rows whose programs are missing and could not be installed; they are named. */
function possible(rows: ReadonlySet<string>): Set<string> {
  const needed: Readonly<Record<string, readonly string[]>> = {
    rest: ['wrk', 'openssl'],
    large: ['wrk'],
    delivery: ['smtp-sink', 'openssl'],
    submission: ['smtp-sink', 'gcc'],
    webhooks: ['smtp-sink', 'nginx'],
    queue: ['smtp-sink'],
  }
  return new Set(
    [...rows].filter((row) => {
      const missing = (needed[row] ?? []).filter((name) => findProgram(name) === undefined)
      if (missing.length > 0) console.error(`bench: the row ${row} is left out: not installed: ${missing.join(', ')}`)
      return missing.length === 0
    }),
  )
}
