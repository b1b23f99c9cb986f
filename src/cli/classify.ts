// `posthorn classify`: what the rules say about an SMTP reply, or about a report by mail. Needs no database.
import { Option, type Command } from 'commander'
import { limits } from '../config.ts'
import { bounceRulesVersion, classify, type BounceEvidence, type BounceStage } from '../domain/bounce-rules.ts'
import { verdictsOf } from '../domain/report-verdict.ts'
import { readReport } from '../mail/report.ts'
import { readGiven } from './arguments.ts'
import { facts, table } from './print.ts'
import type { Cli } from './tools.ts'

const stages = ['mail', 'rcpt', 'data', 'eod'] as const satisfies readonly BounceStage[]

export function classifyCommand(program: Command, cli: Cli): void {
  const command = program.command('classify')
  command
    .description('say what a reply of a mail server, or a bounce or complaint in a file, means')
    .argument('[text]', 'the reply: "550 5.1.1 User unknown"')
    .addOption(new Option('--stage <stage>', 'the command that was answered').choices(stages).default('rcpt'))
    .option(
      '--report <file>',
      'a raw bounce or complaint instead of a reply, of whichever message; - reads standard input',
    )
    .action(async (text: string | undefined, options: { stage: (typeof stages)[number]; report?: string }) => {
      if ((text === undefined) === (options.report === undefined))
        command.error('error: give either a reply or --report FILE', { exitCode: 2 })
      if (text !== undefined) showReply(cli, text, options.stage)
      else await showReport(cli, options.report ?? '')
    })
}

function showReply(cli: Cli, text: string, stage: BounceStage): void {
  const { class: name, event, suppress, rule } = classify(replyEvidence(text, stage))
  const verdict = { class: name, event: event ?? null, suppress, rule, rulesVersion: bounceRulesVersion }
  cli.show(verdict, () => facts(verdict))
}

/** `550-5.1.1 first line`, `550 5.1.1 last line`, as pasted; the codes are taken out of the text. */
function replyEvidence(text: string, stage: BounceStage): BounceEvidence {
  const lines = text.slice(0, limits.replyTextCharactersMax).split(/\r\n|\r|\n|\\n/)
  const code = /^\s*([2-5]\d\d)(?:[ -]|$)/.exec(lines[0] ?? '')?.[1]
  const said = lines.map((line) => line.replace(/^\s*[2-5]\d\d(?:[ -]|$)/, '')).join('\n')
  const enhancedCode = /^\s*([245]\.\d{1,3}\.\d{1,3})(?=\s|$)/.exec(said)?.[1]
  return {
    stage,
    text: said,
    ...(code === undefined ? {} : { code: Number(code) }),
    ...(enhancedCode === undefined ? {} : { enhancedCode }),
  }
}

async function showReport(cli: Cli, file: string): Promise<void> {
  const reports = verdictsOf(readReport(await readGiven(file, limits.feedbackBytesMax, 'no report is'))).map(
    ({ kind, recipient, action, status, class: name, event, suppress, rule }) => ({
      kind,
      recipient: recipient ?? null,
      action: action ?? null,
      status: status ?? null,
      class: name,
      event: event ?? null,
      suppress,
      rule,
    }),
  )
  const rows = () => reports.map((each) => [each.recipient, each.kind, each.action, each.status, each.class, each.event ?? 'none', each.rule]) // prettier-ignore
  cli.show(
    { reports },
    () =>
    table(['RECIPIENT', 'KIND', 'ACTION', 'STATUS', 'CLASS', 'EVENT', 'RULE'], rows(), 'This mail reports nothing about a delivery.'), // prettier-ignore
  )
}
