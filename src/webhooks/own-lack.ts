// Whether a try at posting failed by a lack of our own before anything was asked of the receiver: then it is none of the eight, and no word about the
// endpoint (decisions G). Told in words for operators.
import { isNothingLeft } from '../base/nothing-left.ts'
import { isNoWay, isThereAWayOut } from '../base/way-out.ts'
import type { WebhookTrouble } from '../domain/webhook.ts'
import type { Targets } from './public-address.ts'

/** What is lacking here, by the error of a try that has not begun its request; undefined: nothing, it is the receiver's matter. */
export type OwnLack = (why: NodeJS.ErrnoException) => Promise<string | undefined>

const nameTroubles: readonly unknown[] = ['dns_failure', 'timeout']

export function makeOwnLack(
  { namesAnswer, anywhere }: Pick<Targets, 'namesAnswer' | 'anywhere'>,
  wayOut: () => Promise<boolean> = isThereAWayOut,
): OwnLack {
  return async (why) => {
    if (why.message === ('shutdown' satisfies WebhookTrouble)) return 'this process is being stopped'
    // Where a name has several addresses, each has an error of its own.
    const each = why instanceof AggregateError ? (why.errors as NodeJS.ErrnoException[]) : [why]
    if (each.some(isNothingLeft)) return 'nothing is left here for one more connection'
    const isOfNames = nameTroubles.includes(why.message)
    if (isOfNames && !(await namesAnswer())) return 'no name server answers'
    // Who posts to public addresses alone posts nothing without a way out; in local development there may be none.
    const needsWay = why.message === 'dns_failure' || each.every(({ code }) => isNoWay(code))
    if (needsWay && !anywhere && !(await wayOut())) return 'this machine has no way to any network'
    return undefined
  }
}
