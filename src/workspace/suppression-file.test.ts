// What other services export comes in as it is. The files are written as their documentation and the programs of their users show them (docs/moving.md).
import { expect, test } from 'vitest'
import { storeWorld } from '../store/store.test-kit.ts'
import { listSuppressions, importSuppressions, type ImportWish } from './workspace.ts'

const world = await storeWorld()

async function imported(text: string, wish: ImportWish = {}) {
  const { workspaceId } = await world.sender()
  const result = await importSuppressions(world.db, workspaceId, text, 'operator:test', wish)
  const rows: string[] = []
  for await (const { recipient, reason, createdAt, evidence } of listSuppressions(world.db, workspaceId))
    rows.push([recipient.split('@')[0], reason, createdAt.toISOString(), evidence].filter(Boolean).join(' | '))
  return { result, rows }
}

test.each<[string, string, ImportWish, string[], string[]]>([
  [
    'Postmark',
    'EmailAddress,SuppressionReason,Origin,CreatedAt\r\na@b.example,HardBounce,Recipient,2019-12-17T08:58:33-05:00\r\nb@b.example,SpamComplaint,Recipient,2019-12-17T08:58:33-05:00\r\nc@b.example,ManualSuppression,Customer,2019-12-17\r\n',
    {},
    [
      'a | hard_bounce | 2019-12-17T13:58:33.000Z',
      'b | complaint | 2019-12-17T13:58:33.000Z',
      'c | manual | 2019-12-17T00:00:00.000Z',
    ],
    ['Origin'],
  ],
  [
    'SendGrid, bounces',
    'status,reason,email,created\n5.1.1,"550 5.1.1 The email account, that you tried",a@b.example,1443651141\n,Bounced Address,b@b.example,1443651154\n',
    { reason: 'hard_bounce' },
    [
      'a | hard_bounce | 2015-09-30T22:12:21.000Z | 550 5.1.1 The email account, that you tried',
      'b | hard_bounce | 2015-09-30T22:12:34.000Z | Bounced Address',
    ],
    ['status'],
  ],
  [
    'SendGrid, spam reports',
    'ip,email,created\n192.0.2.7,a@b.example,1443651141\n',
    { reason: 'complaint' },
    ['a | complaint | 2015-09-30T22:12:21.000Z'],
    ['ip'],
  ],
  [
    'Mailgun, bounces',
    'address,code,error,created_at,MessageHash\na@b.example,550,5.1.1 no such user,"Tue, 07 Jan 2025 19:25:45 UTC",x\n',
    { reason: 'hard_bounce' },
    ['a | hard_bounce | 2025-01-07T19:25:45.000Z | 5.1.1 no such user'],
    ['code', 'MessageHash'],
  ],
  [
    'Mailgun, unsubscribes',
    'address,tags,created_at\na@b.example,*,"Tue, 07 Jan 2025 19:25:45 +0000"\n',
    {},
    ['a | manual | 2025-01-07T19:25:45.000Z'],
    ['tags'],
  ],
  [
    'Amazon SES, the command line as text',
    'a@b.example\tBOUNCE\nb@b.example\tCOMPLAINT\n',
    {},
    ['a | hard_bounce', 'b | complaint'],
    [],
  ],
  [
    'Amazon SES, as CSV',
    'EmailAddress,Reason,LastUpdateTime\na@b.example,BOUNCE,2020-04-10T21:03:05.500000-07:00\n',
    {},
    ['a | hard_bounce | 2020-04-11T04:03:05.500Z'],
    [],
  ],
  [
    'Resend',
    'id,email,origin,source_id,created_at\nx,a@b.example,bounce,4ef9a417-02e9-4d39-ad75-9611e0fcc33c,2025-10-07T08:12:03.412Z\ny,b@b.example,complaint,,2025-12-29 19:22:57.316919+00\nz,c@b.example,manual,,2025-10-06T23:47:56.678Z\n',
    {},
    [
      'a | hard_bounce | 2025-10-07T08:12:03.412Z',
      'b | complaint | 2025-12-29T19:22:57.316Z',
      'c | manual | 2025-10-06T23:47:56.678Z',
    ],
    ['id', 'source_id'],
  ],
  [
    'Brevo',
    '"email";"senderEmail";"reason";"blockedAt"\n"a@b.example";"shop@me.example";"hardBounce";"2017-05-01T12:30:00.000Z"\n"b@b.example";"";"contactFlaggedAsSpam";""\n"c@b.example";"";"unsubscribedViaEmail";"2017-05-01 12:30"\n',
    {},
    ['a | hard_bounce | 2017-05-01T12:30:00.000Z', 'b | complaint', 'c | manual | 2017-05-01T12:30:00.000Z'],
    ['senderEmail'],
  ],
  [
    'Mandrill, saved by a spreadsheet',
    '\ufeffEmail;Reason;Detail;Created at\r\na@b.example;hard-bounce;smtp;550 no;2024-02-03 04:05:06\r\n'.replace(
      'smtp;550 no',
      '"smtp;550 no"',
    ),
    {},
    ['a | hard_bounce | 2024-02-03T04:05:06.000Z | smtp;550 no'],
    [],
  ],
])('the export of %s comes in as it is', async (_, text, wish, rows, ignored) => {
  const { result, rows: found } = await imported(text, wish)
  const undated = found.map((row, at) => ((rows[at] ?? '').includes(' | 20') ? row : row.replace(/ \| 20\S+/, '')))
  expect(undated).toEqual(rows)
  expect(result).toMatchObject({ added: rows.length, alreadyThere: 0, ignoredColumns: ignored })
})

test.each([
  [
    'what a mail server said is not guessed at',
    'email,reason\na@b.example,550 5.1.1 no\n',
    {},
    /^line 2: the reason "550 5\.1\.1 no" is no word for .*--reason hard_bounce/m,
  ],
  [
    'a soft bounce suppresses nobody, whatever the rest of the list means',
    'email;reason\na@b.example;hard-bounce\nb@b.example;soft-bounce\n',
    { reason: 'hard_bounce' },
    /^line 3: the reason "soft-bounce" suppresses nobody/m,
  ],
  [
    'a date that may be read in two ways',
    'email,created\na@b.example,01/02/2025\n',
    {},
    /^line 2: the date "01\/02\/2025" must be written like 2026-11-01 .* without its column the day of the import counts/m,
  ],
  ...['2026-02-30', '2025-02-29T08:30:00Z', '31 Apr 2026 10:00:00 GMT'].map(
    (day) =>
      [
        `a day that there is not, ${day}`,
        `email,created\na@b.example,${day}\n`,
        {},
        new RegExp(`^line 2: the date "${day}" must be written like`, 'm'),
      ] as const,
  ),
] as const)('%s: nothing is written, and the line is named', async (_, text, wish, words) => {
  await expect(imported(text, wish)).rejects.toThrow(words)
})

test('a dry run says what would happen, refuses what an import refuses, and writes nothing', async () => {
  const { workspaceId } = await world.sender()
  const go = (text: string, wish: ImportWish) => importSuppressions(world.db, workspaceId, text, 'operator:test', wish)
  const file = 'email,reason,note\na@b.example,bounce,x\nA@b.example,bounce,\nb@b.example,spam,\nc@b.example,,\n'
  const facts = { reasons: { hard_bounce: 2, complaint: 1, manual: 1 }, ignoredColumns: ['note'] }
  expect(await go(file, { dryRun: true })).toEqual({ added: 3, alreadyThere: 0, ...facts })
  await expect(go(`${file}nope,,\n`, { dryRun: true })).rejects.toThrow('line 6: "nope" is not an address')
  await expect(go(file, { dryRun: true, most: 2 })).rejects.toThrow('at most 2 suppressed recipients')
  expect(await world.db.run('select from suppressions where workspace_id = $1', [workspaceId])).toEqual([])
  await go('a@b.example', {})
  expect(await go(file, { dryRun: true })).toEqual({ added: 2, alreadyThere: 1, ...facts })
  expect(await go(file, {})).toEqual({ added: 2, alreadyThere: 1, ...facts })
})
