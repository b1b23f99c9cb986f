// Posthorn as a stranger runs it: `bin/posthorn serve` in a process of its own, settings from the environment, everything else by the
// commands of the operating contract.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import type { ClientConfig } from 'pg'
import type { Sender, Target } from './load.ts'
import { freePorts } from '../src/base/free-ports.ts'
import { run, start } from './processes.ts'

const posthorn = fileURLToPath(new URL('../bin/posthorn', import.meta.url))
const portNames = ['HTTP', 'SMTP', 'SMTPS', 'FEEDBACK', 'METRICS'] as const

export interface Service extends Omit<Target, 'senders'> {
  /** From its start to `posthorn ready`. */
  readonly startMs: number
  readonly smtpPort: number
  readonly smtpsPort: number
  readonly stop: () => Promise<void>
}

export interface Installation {
  readonly dataDir: string
  /** Starts it with these settings and waits until it is ready. */
  serve(settings?: Readonly<Record<string, string>>): Promise<Service>
  /** One of the operator's commands, and what it answers. */
  readonly command: (...args: readonly string[]) => Promise<Record<string, unknown>>
}

/** One data folder, and what all its processes are told. */
export function installation(folder: string, more: Readonly<Record<string, string>> = {}): Installation {
  const dataDir = join(folder, 'data')
  fs.mkdirSync(dataDir, { mode: 0o711 })
  const base = { POSTHORN_DATA_DIR: dataDir, POSTHORN_HOSTNAME: 'bench.example', ...more }
  return {
    dataDir,
    serve: async (settings = {}) => {
      const ports = await freePorts(portNames.length)
      const env: Record<string, string> = { ...base, ...settings }
      for (const [index, name] of portNames.entries()) env[`POSTHORN_${name}_PORT`] = `${ports[index]}`
      const began = performance.now()
      const service = start({ name: 'posthorn', command: posthorn, args: ['serve'], env, folder, stopMs: 60_000 })
      await service.says(/^posthorn ready /m, 60_000)
      const startMs = performance.now() - began
      return {
        name: 'posthorn',
        port: ports[0] ?? 0,
        pids: [service.pid],
        startMs,
        smtpPort: ports[1] ?? 0,
        smtpsPort: ports[2] ?? 0,
        stop: service.stop,
      }
    },
    command: async (...args) =>
      JSON.parse(await run(posthorn, [...args, '--json'], { env: base })) as Record<string, unknown>,
  }
}

/** Workspaces ready to send, each with a domain, a mailbox and a key. The service must run: the commands are then quick. */
export async function makeSenders({ command }: Installation, count: number): Promise<Sender[]> {
  const senders: Sender[] = []
  for (let number = 1; number <= count; number++) {
    const workspace = await command('workspace', 'create', '--name', `Bench ${number}`, '--plan', 'unlimited')
    const id = String(workspace['id'])
    await command('domain', 'add', id, `w${number}.bench.example`, '--verified')
    const mailbox = await command('mailbox', 'add', id, `shop@w${number}.bench.example`)
    const scopes = ['--scope', 'mail.send', '--scope', 'mail.status.read']
    const key = await command('key', 'create', id, '--name', 'bench', ...scopes)
    senders.push({ key: String(key['key']), mailboxId: String(mailbox['id']) })
  }
  return senders
}

/** Looks into the database of a running installation: over its socket, as the commands do. */
export async function look(dataDir: string): Promise<Client> {
  const holder = JSON.parse(fs.readFileSync(join(dataDir, 'postgresql.running.json'), 'utf8')) as {
    connection: ClientConfig
  }
  const client = new Client({ ...holder.connection, application_name: 'posthorn bench' })
  client.on('error', () => undefined) // the question under way tells
  await client.connect()
  return client
}
