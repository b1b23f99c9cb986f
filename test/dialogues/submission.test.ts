// The dialogues of SMTP submission, against the real policy, acceptance and database: as they are written, and with every byte from the
// client in a packet of its own. Each gets a database of its own with four workspaces: `user` of w1, `blocked` of w2, `free` of w3 whose
// plan has no sending, and `small` of w4 with one message an hour; all have the password `secret`.
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { makeAcceptMail } from '../../src/accept/accept.ts'
import { acceptTools, patientScanner } from '../../src/accept/accept.test-kit.ts'
import { Guesses } from '../../src/base/guesses.ts'
import { silentLog } from '../../src/base/log.ts'
import { makeVault } from '../../src/base/secret.ts'
import { isRefusal, refusalCodes } from '../../src/domain/refusal.ts'
import type { WorkspaceId } from '../../src/domain/message.ts'
import { smtpServer } from '../../src/smtp/server.ts'
import { refusals } from '../../src/smtp/refusals.ts'
import { submissionOffer, submissionPolicies } from '../../src/smtp/submission.ts'
import { makeIds } from '../../src/store/message-id.ts'
import { makeRefusalBook } from '../../src/store/refused-submissions.ts'
import { insertCredential } from '../../src/store/smtp-credentials.ts'
import { storeWorld, type StoreWorld } from '../../src/store/store.test-kit.ts'
import { passwordHasher } from '../../src/workspace/smtp-credentials.ts'
import { makeSubmitters } from '../../src/workspace/submitters.ts'
import { certificateFor } from '../world/certificates.ts'
import { parseDialogue, play } from './dialogue.ts'

const folder = new URL('./submission/', import.meta.url)
const vault = makeVault('an installation key of the tests, long enough')

async function prepare(world: StoreWorld): Promise<void> {
  const senders = [await world.sender(), await world.sender(), await world.sender(), await world.sender({ hourly: 1 })]
  const [first, second, third] = senders
  for (const [at, username] of ['user', 'blocked', 'free', 'small'].entries())
    await insertCredential(world.db, senders[at]?.workspaceId as WorkspaceId, {
      id: world.nextId(),
      name: username,
      username,
      passwordHash: passwordHasher(vault)(username, 'secret'),
    })
  await world.db.run(`update workspaces set status = 'blocked' where id = $1`, [second?.workspaceId])
  await world.db.run(`update workspaces set plan = 'free' where id = $1`, [third?.workspaceId])
  await world.db.run(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason) values ($1, 'gone@receiver.test', 'gone@receiver.test', 'manual')`,
    [first?.workspaceId],
  )
}

describe.each(readdirSync(folder))('%s', (file) => {
  const dialogue = parseDialogue(readFileSync(new URL(file, folder), 'utf8'))
  const manners = [
    ['as written', false],
    ['byte by byte', true],
  ] as const
  test.each(manners.filter(([, bytewise]) => !(bytewise && dialogue.settings.has('one-packet'))))(
    '%s',
    async (_, bytewise) => {
      const world = await storeWorld()
      const { ca, ...tls } = certificateFor()
      const taken: string[] = []
      const ids = makeIds(world.db)
      await ids.synchronize()
      const scanner = patientScanner()
      const book = makeRefusalBook(world.db, silentLog)
      const acceptMail = makeAcceptMail(acceptTools(world, { ids, scanner, hostname: 'submit.test' }))
      const policy = submissionPolicies({
        doors: {
          ...makeSubmitters({ db: world.db, vault, log: silentLog, publicUrl: 'http://localhost' }),
          acceptMail: async (mail) => {
            const answer = await acceptMail(mail)
            const to = mail.recipients.map(({ text }) => Buffer.from(text).toString('latin1')).join(', ')
            if (!isRefusal(answer) && !answer.replayed) taken.push(`${to} = ${mail.content.toString('latin1')}`)
            return answer
          },
          noteRefused: (refused) => book.note(refused),
        },
        guesses: new Guesses(),
        isDatabaseAway: () => false,
        log: silentLog,
        now: () => ids.now(),
      })
      const server = smtpServer({
        name: 'submission',
        host: '127.0.0.1',
        port: 0,
        offer: submissionOffer('submit.test', true),
        policy,
        tls,
        log: silentLog,
      })
      try {
        await prepare(world)
        await server.start()
        await play(dialogue, { port: server.port(), ca, taken, bytewise })
        const recipients = taken.flatMap((message) => (message.split(' = ')[0] ?? '').split(', '))
        expect(await world.value('select count(*)::integer from messages')).toBe(recipients.length)
        expect(await world.value('select sum(month_count)::integer from usage')).toBe(recipients.length)
      } finally {
        ids.stop()
        await server.stop()
        await book.quiet()
        await scanner.stop()
        await world.close()
      }
    },
  )
})

test('every refusal has its reply, and what may succeed later is temporary', () => {
  const later = refusalCodes.filter((code) => refusals[code].code < 500)
  expect(later).toEqual([
    'scanner_unavailable',
    'hourly_limit_reached',
    'daily_limit_reached',
    'monthly_limit_reached',
    'idempotency_in_progress',
    'too_many_attempts',
    'service_unavailable',
    'internal_error',
  ])
  for (const code of refusalCodes) expect(refusals[code].enhanced[0]).toBe(String(refusals[code].code)[0])
})
