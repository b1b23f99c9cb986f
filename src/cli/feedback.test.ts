// `posthorn feedback`: what strangers wrote is shown as they wrote it, and moves no cursor.
import { randomUUIDv7 } from 'node:crypto'
import { expect, test } from 'vitest'
import { commandsOver } from './command.test-kit.ts'

const { answer, posthorn, open } = commandsOver()

test('the beginning of a mail is shown in its own letters, and what a terminal would obey is not', async () => {
  await answer('feedback', 'list')
  const db = open()
  const id = randomUUIDv7()
  await db.run(
    `insert into unmatched_feedback (id, reason, source, sender, addressee, facts, size_bytes, content)
     values ($1, 'no_report', 'mail', 'jörg@example.org', 'bounce@node.test', '{}', 60, $2)`,
    [id, Buffer.from('Subject: Grüße\r\n\r\nさようなら – Jörg\u001b[2J\u202e\r\n')],
  )
  await db.close()
  const { status, out, err } = await posthorn(['feedback', 'show', id])
  expect({ status, err }).toEqual({ status: 0, err: '' })
  expect(out).toContain('\n\nSubject: Grüße\n\nさようなら – Jörg [2J \n')
})
