// The list of messages as people and programs read it: the first page, one far behind, and searches, over HTTP, in a workspace with a million
// messages. They are filled in by SQL: acceptance has rows of its own.
import type { Client } from 'pg'
import { Client as Http } from 'undici'
import type { Options } from '../options.ts'
import { folderIn } from '../processes.ts'
import { installation, look } from '../service.ts'
import type { Installation } from '../service.ts'
import type { Row } from '../table.ts'

/** What is asked, and what the answer must be like. */
const questions = {
  first: 'the first page',
  deep: 'a page behind 95 %',
  day: 'one day, a month ago',
  recipient: 'all to one recipient',
  failed: 'the failed ones',
  words: 'words in the subject',
  nothing: 'words that nobody wrote',
} as const
type Question = keyof typeof questions

export interface MessagesRuns {
  readonly many: number
  /** Milliseconds that 95 of 100 requests took at most, one for each round. */
  readonly p95: Readonly<Record<Question, number[]>>
}

interface Listed {
  readonly items: readonly { readonly recipient: string; readonly status: string; readonly createdAt: string }[]
  readonly next?: string
}

const days = 60
/** Each gets ten messages; a multiple of the 20 domains. */
const recipientsOf = (many: number): number => Math.max(1, Math.floor(many / 200)) * 20
const page = 50

export async function runMessages(options: Options, temporary: string): Promise<MessagesRuns> {
  const { messages: many, smoke, tell } = options
  const home = installation(folderIn(temporary, 'posthorn-messages'))
  const service = await home.serve({ POSTHORN_ROLES: 'api' })
  const [ours, others] = [await makeReader(home, 'Ours'), await makeReader(home, 'Others')]
  tell(`messages: filling in ${many.toLocaleString('en-US')}`)
  const deepest = await filled(home, ours.workspaceId, others.workspaceId, many)

  const http = new Http(`http://127.0.0.1:${service.port}`)
  const ask = async (query: string): Promise<{ readonly listed: Listed; readonly ms: number }> => {
    const began = performance.now()
    const answer = await http.request({
      method: 'GET',
      path: `/api/v1/messages?limit=${page}${query}`,
      headers: { authorization: `Bearer ${ours.key}` },
    })
    const listed = (await answer.body.json()) as Listed
    const ms = performance.now() - began
    if (answer.statusCode !== 200) throw new Error(`answered ${answer.statusCode}: ${JSON.stringify(listed)}`)
    return { listed, ms }
  }
  const askers = askersFor(ask, many, deepest)
  const runs = Object.fromEntries(Object.keys(questions).map((name) => [name, [] as number[]]))
  const rounds = Math.min(options.pairs, 5)
  const turns = smoke ? 20 : 300
  for (let round = 0; round <= rounds; round++) {
    for (const [name, asker] of Object.entries(askers)) {
      const took: number[] = []
      for (let turn = 0; turn < (round === 0 ? 20 : turns); turn++) took.push(await asker(turn))
      // The first round fills caches and is not counted.
      if (round > 0) runs[name]?.push(percentile95(took))
    }
    const told = Object.entries(runs).map(([name, each]) => `${name} ${each.at(-1)?.toFixed(1) ?? '-'}`)
    tell(`messages ${round}/${rounds}, p95 in ms: ${told.join(', ')}`)
  }
  await http.close()
  await service.stop()
  return { many, p95: runs as Record<Question, number[]> }
}

interface Deepest {
  readonly id: string
  readonly at: Date
}

/** Both workspaces' messages; the one behind which five of a hundred lie. */
async function filled(home: Installation, ours: string, others: string, many: number): Promise<Deepest> {
  const client = await look(home.dataDir)
  try {
    await client.query(`select ensure_partitions(now() - interval '${days + 1} days', now())`)
    await fill(client, others, Math.ceil(many / 10))
    await fill(client, ours, many)
    await client.query('vacuum analyze messages')
    const { rows } = await client.query<Deepest>(
      'select id, created_at at from messages where workspace_id = $1 order by id offset $2 limit 1',
      [ours, Math.floor(many / 20)],
    )
    const [deepest] = rows
    if (deepest === undefined) throw new Error('the list could not be filled')
    return deepest
  } finally {
    await client.end()
  }
}

type Ask = (query: string) => Promise<{ readonly listed: Listed; readonly ms: number }>

/** One request each; another recipient, day and place at every turn. Throws where the answer is not what was filled in. */
function askersFor(ask: Ask, many: number, deepest: Deepest) {
  const checked = async (query: string, isRight: (listed: Listed) => boolean): Promise<number> => {
    const { listed, ms } = await ask(query)
    if (!isRight(listed)) throw new Error(`${query} was answered with ${JSON.stringify(listed).slice(0, 500)}`)
    return ms
  }
  const isFull = ({ items, next }: Listed) => items.length === page && next !== undefined
  let cursor: string | undefined
  return {
    first: () => checked('', isFull),
    deep: async () => {
      cursor ??= Buffer.from(deepest.id).toString('base64url') // as `next` is written
      const { listed, ms } = await ask(`&cursor=${cursor}`)
      if (!listed.items.every(({ createdAt }) => Date.parse(createdAt) <= deepest.at.getTime()))
        throw new Error('a deep page has messages of before it')
      cursor = listed.next
      return ms
    },
    day: (turn) => {
      const to = new Date(Date.now() - (25 + (turn % 20)) * 86_400_000)
      const from = new Date(to.getTime() - 86_400_000)
      const isInside = ({ createdAt }: Listed['items'][number]) =>
        Date.parse(createdAt) >= from.getTime() && Date.parse(createdAt) < to.getTime()
      return checked(
        `&from=${from.toISOString()}&to=${to.toISOString()}`,
        ({ items }) => items.length > 0 && items.every(isInside),
      )
    },
    recipient: (turn) => {
      const recipient = recipientOf((turn * 7) % recipientsOf(many))
      return checked(
        `&recipient=${encodeURIComponent(recipient)}`,
        ({ items }) => items.length > 0 && items.every((item) => item.recipient === recipient),
      )
    },
    failed: () =>
      checked('&status=failed', ({ items }) => items.length > 0 && items.every(({ status }) => status === 'failed')),
    words: (turn) => checked(`&text=ORDER%20${many - turn}`, ({ items }) => items.length > 0),
    nothing: () => checked('&text=nobody%20wrote%20this', ({ items }) => items.length === 0),
  } satisfies Record<Question, (turn: number) => Promise<number>>
}

const recipientOf = (number: number): string => `u${number}@d${number % 20}.example.com`

function percentile95(figures: readonly number[]): number {
  const sorted = [...figures].sort((one, other) => one - other)
  return sorted[Math.ceil(sorted.length * 0.95) - 1] ?? Number.NaN
}

async function makeReader({ command }: Installation, name: string) {
  const { id } = await command('workspace', 'create', '--name', name, '--plan', 'unlimited')
  const workspaceId = String(id)
  const domain = `${name.toLowerCase()}.bench.example`
  await command('domain', 'add', workspaceId, domain, '--verified')
  await command('mailbox', 'add', workspaceId, `shop@${domain}`)
  const { key } = await command('key', 'create', workspaceId, '--name', 'bench', '--scope', 'mail.read')
  return { workspaceId, key: String(key) }
}

/** Evenly over the last days, the newest last, as they would have been left by now: one of a hundred failed. */
async function fill(client: Client, workspace: string, many: number): Promise<void> {
  const bite = 50_000
  for (let done = 0; done < many; done += bite)
    await client.query(insert, [workspace, done + 1, Math.min(done + bite, many), many, recipientsOf(many)])
}
const insert = `
  insert into messages (workspace_id, id, mailbox_id, source, status, delivery_rank, sequence, sender, recipient, recipient_key, subject,
                        accepted_by, created_at, finished_at)
  select $1, overlay(gen_random_uuid()::text placing left(uuid_floor(day)::text, 15) from 1 for 15)::uuid, box.id, 'rest',
         case when n % 100 = 7 then 'failed' else 'sent' end, case when n % 3 = 0 then 2 else 0 end, 3, box.address, made.recipient, made.recipient,
         'Your order ' || n || ' is on its way', 'bench.example', day, day + interval '2 seconds'
    from generate_series($2::integer, $3::integer) n
         cross join lateral (select now() - interval '${days} days' * (1 - n::float8 / $4::integer) as day,
                                    'u' || n % $5::integer || '@d' || n % 20 || '.example.com' recipient) made
         cross join lateral (select id, address from mailboxes where workspace_id = $1 limit 1) box`

export function messagesRows({ many, p95 }: MessagesRuns): Row[] {
  const list = `list of ${many.toLocaleString('en-US')} messages, p95`
  const rows = Object.entries(questions).map(([name, words]): Row => ({
    name: `${list}: ${words}`,
    ours: p95[name as Question],
    unit: 'ms',
    better: 'less',
    must: 100,
    aim: 30,
  }))
  const alike: Row = {
    name: `${list}: ${questions.deep}`,
    ours: p95.deep,
    unit: 'ms',
    peer: { name: questions.first, figures: p95.first },
    better: 'less',
    must: 2,
    aim: 1.2,
  }
  return [...rows, alike]
}
