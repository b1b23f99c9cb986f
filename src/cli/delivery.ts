// `posthorn drain` and `posthorn recover`: an operator stops delivery, or decides how it goes on after a restore.
import type { Command } from 'commander'
import { limits } from '../config.ts'
import { writeAudit } from '../store/audit.ts'
import { databaseNow } from '../store/database.ts'
import { assumeSentSince, liftFence, readProgress, readStops, setDrain, type QueueProgress } from '../store/fence.ts'
import { audited, Mistake } from '../workspace/workspace.ts'
import { instant } from './arguments.ts'
import { facts } from './print.ts'
import { progress } from './progress.ts'
import type { Cli, Tools } from './tools.ts'

export function drainCommand(program: Command, cli: Cli): void {
  program
    .command('drain')
    .description(
      'stop delivery on all nodes: what is in flight ends or is handed back, what is accepted waits; a restart does not undo it',
    )
    .option('--off', 'deliver again')
    .option('--no-wait', 'return at once, not when nothing is in flight any more')
    .action((options: { off?: true; wait: boolean }) => cli.withExisting((tools) => drain(cli, tools, options)))
}

export function recoverCommand(program: Command, cli: Cli): void {
  program
    .command('recover')
    .description(
      'after a restore: decide about mail whose history the database has lost, so that delivery goes on (docs/restore.md)',
    )
    .option('--resume', 'send what is queued, also what may have been sent before')
    .option(
      '--assume-sent-since <time>',
      'what could have been sent since then becomes delivery_unknown, and is not sent',
      instant,
    )
    .action((options: { resume?: true; assumeSentSince?: Date }, command: Command) => {
      if ((options.resume === true) === (options.assumeSentSince !== undefined))
        command.error('error: give one of --resume and --assume-sent-since TIME; docs/restore.md tells which')
      return cli.withExisting((tools) => recover(cli, tools, options.assumeSentSince))
    })
}

async function drain(cli: Cli, { db, actor }: Tools, { off, wait }: { off?: true; wait: boolean }): Promise<void> {
  const on = off !== true
  await audited(db, { actor }, on ? 'delivery.drained' : 'delivery.resumed', (tx) => setDrain(tx, on))
  if (off === true) {
    const { inFlight, waiting } = await readProgress(db)
    const stoppedBy = await stopsNow(db)
    return cli.show({ draining: false, inFlight, waiting, ...(stoppedBy.length > 0 && { stoppedBy }) }, () =>
      stoppedBy.length === 0
        ? `Delivery goes on; ${counted(waiting, 'is', 'are')} waiting.`
        : `The drain is over; delivery is still stopped (${stoppedBy.join(', ')}), and ${counted(waiting, 'is', 'are')} waiting: posthorn doctor`,
    )
  }
  const { inFlight, waiting } = await untilQuiet(cli, () => drainingProgress(db), wait ? limits.drainWaitMs : 0)
  cli.show({ draining: true, inFlight, waiting }, () =>
    inFlight === 0
      ? `Nothing is in flight; ${counted(waiting, 'waits', 'wait')} for: posthorn drain --off`
      : `${counted(inFlight, 'is', 'are')} still in flight, ${counted(waiting, 'is', 'are')} waiting. Nothing new is begun.`,
  )
}

/** As long as nobody takes the drain back: whoever waits for it is about to do what needs one. */
async function drainingProgress(db: Tools['db']): Promise<QueueProgress> {
  const progress = await readProgress(db)
  if ((await readStops(db.rows)).some(({ kind }) => kind === 'drain')) return progress
  throw new Mistake('Somebody has taken back the drain meanwhile (posthorn drain --off): nothing is drained.')
}

/** With the verb that is right for one of them, and for others. */
const counted = (many: number, one: string, others: string): string =>
  many === 1 ? `1 message ${one}` : `${many} messages ${others}`

/** Looks until nothing is in flight, and tells people how far it is. */
async function untilQuiet(cli: Cli, look: () => Promise<QueueProgress>, withinMs: number): Promise<QueueProgress> {
  const deadline = performance.now() + withinMs
  for (let told = performance.now(); ;) {
    const progress = await look()
    if (progress.inFlight === 0 || performance.now() >= deadline) return progress
    if (!cli.json && performance.now() - told > 1_000) {
      told = performance.now()
      cli.write(`${counted(progress.inFlight, 'is', 'are')} in flight\n`)
    }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** What stops delivery; whoever takes back one stop is to hear of the others. */
async function stopsNow({ rows }: Tools['db']): Promise<string[]> {
  return (await readStops(rows)).map(({ kind, reason }) => `${kind}: ${reason}`)
}

async function recover(cli: Cli, { db, actor }: Tools, since: Date | undefined): Promise<void> {
  const before = (await readStops(db.rows)).filter(({ kind }) => kind !== 'drain').map(({ reason }) => reason)
  if (since !== undefined && since > (await databaseNow(db)))
    throw new Mistake('The time of --assume-sent-since lies in the future: it is when the backup was made, or earlier.')
  let wereOver = 0
  const over = () => void wereOver++
  const tell = progress(cli)
  const told = (moved: number) => tell(() => `messages assumed sent so far: ${moved}`)
  const assumedSent = since === undefined ? 0 : await assumeSentSince(db, since, over, told)
  const decided = { stoppedBy: before, assumedSent, ...(since !== undefined && { assumedSentSince: since }) }
  const audit = () => writeAudit(db, { actor, action: 'delivery.recovered', facts: decided })
  // Whoever assumes puts a stop where there is none. Where it is gone again, somebody else has let delivery go on.
  if (since !== undefined && !(await readStops(db.rows)).some(({ kind }) => kind === 'fence')) {
    await audit()
    throw new Mistake(
      `Somebody else has decided meanwhile (posthorn recover), and delivery goes on: of what was to be assumed sent, ${assumedSent} ${assumedSent === 1 ? 'message was' : 'messages were'}, and what had been claimed before is sent. Look at posthorn message list.`,
    )
  }
  const repliesWritten = await liftFence(db, over)
  // Behind it, not with it: what is repeated after a deadlock cannot stand in one transaction.
  await audit()
  const stillStoppedBy = await stopsNow(db)
  cli.show(
    {
      stoppedBy: before,
      assumedSent,
      repliesWritten,
      ...(wereOver > 0 && { wereOver }),
      ...(stillStoppedBy.length > 0 && { stillStoppedBy }),
    },
    () =>
      facts({
        'delivery was stopped by': before.join(', ') || 'nothing',
        'messages assumed sent': assumedSent,
        'replies written down': repliesWritten,
        ...(wereOver > 0 && { 'out of the queue, since they were over by their records': wereOver }),
        ...(stillStoppedBy.length > 0 && { 'delivery is still stopped by': stillStoppedBy.join(', ') }),
      }),
  )
}
