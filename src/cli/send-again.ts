// `posthorn message send-again`: what the button on the page of a message does, for those who have no browser. It is an admission like any other, done
// by this command itself: whether the service runs makes no difference.
import { isRefusal } from '../domain/refusal.ts'
import { mayNotSend } from '../domain/standing.ts'
import { findMessage, Mistake, sendAgain, standingOf } from '../workspace/workspace.ts'
import { withAcceptance } from './acceptance.ts'
import type { MakeCommand } from './arguments.ts'
import { facts } from './print.ts'
import type { Cli } from './tools.ts'

export function sendAgainCommand(make: MakeCommand, cli: Cli): void {
  make(
    'send-again',
    'send a message that failed, or whose outcome nobody can know, again as a new one: at most once, charged like any other',
  )
    .argument('<id>', 'the id of the message')
    .action((text: string) =>
      cli.withExisting(async (tools) => {
        const { id, workspace } = await findMessage(tools.db, text)
        const standing = await standingOf(tools.db, workspace, tools.publicUrl)
        const refusal = standing === undefined ? undefined : mayNotSend(standing)
        if (refusal !== undefined) throw new Mistake(refusal.words)
        const answer = await withAcceptance(tools, (doors) =>
          sendAgain({ ...doors, db: tools.db }, tools.by(workspace), id),
        )
        if (isRefusal(answer)) throw new Mistake(answer.words)
        const { message, replayed } = answer
        const { recipient, status } = message
        cli.show({ id: message.id, sentAgainFor: id, recipient, status, replayed }, () =>
          replayed
            ? `It was sent again before, as ${message.id}.`
            : facts({ id: message.id, 'sent again for': id, to: recipient, status }),
        )
      }),
    )
}
