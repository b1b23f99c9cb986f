// Waits until nothing is left to send or to post. What is still open at the end of that time is against the promise, too, while the other ledgers may agree all the same:
// mail that has not ended, and an event that is due, or whose claim does not end. One that waits for its next try may have hours to wait, and is only counted (check.ts).
import { setTimeout as pause } from 'node:timers/promises'

type Query = <Row extends object>(text: string) => Promise<Row[]>

const anything = 'select exists (select from outbound) or exists (select from webhook_queue) left'
const open = {
  message: `select concat_ws(' ', message_id, 'attempts', attempts, 'due', due_at, 'leased until', lease_until, 'armed', armed_epoch) words
              from outbound limit 20`,
  webhook: `select concat_ws(' ', message_id, sequence, 'round', round, 'attempts', attempts, 'due', due_at, 'leased until', lease_until) words
              from webhook_queue where lease_until is not null or due_at <= app_now() limit 20`,
}

/** Empty: it is quiet. */
export async function unrestBehind(quietMs: number, query: Query): Promise<string[]> {
  for (const deadline = Date.now() + quietMs; ;) {
    const [found] = await query<{ left: boolean }>(anything)
    if (found?.left === false) return []
    if (Date.now() >= deadline) break
    await pause(200)
  }
  const unrest: string[] = []
  for (const [what, text] of Object.entries(open))
    for (const { words } of await query<{ words: string }>(text)) unrest.push(`not quiet: ${what} ${words}`)
  return unrest
}
