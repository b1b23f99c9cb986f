// The receivers in docs/webhooks.md, run as they stand there, in every language that this machine has.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { connect, createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { signed } from './signed.ts'

interface Language {
  readonly fence: string
  /** Its `handle`, when the work takes a second and fails the first time. */
  readonly slow: readonly [handle: RegExp, instead: string]
  readonly file: string
  /** The program, and what it is asked to see whether it is there. */
  readonly program: readonly [name: string, question: string]
  readonly args: (file: string, port: number) => readonly string[]
}
const languages: readonly Language[] = [
  {
    fence: 'js',
    slow: [
      /^async function handle[\s\S]*?^\}/m,
      `async function handle(event) {
  console.log(event.type, event.id)
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  if (globalThis.isMended) return
  globalThis.isMended = true
  throw new Error('the database is away')
}`,
    ],
    file: 'receiver.mjs',
    program: [process.execPath, '--version'],
    args: (file) => [file],
  },
  {
    fence: 'python',
    slow: [
      /^def handle[\s\S]*?^$/m,
      `mended = False
def handle(event):
    global mended
    print(event['type'], event['id'], flush=True)
    time.sleep(1)
    if not mended:
        mended = True
        raise OSError('the database is away')
`,
    ],
    file: 'receiver.py',
    program: ['python3', '--version'],
    args: (file) => [file],
  },
  {
    fence: 'go',
    slow: [
      /^func handle[\s\S]*?^\}/m,
      `var mended = false
func handle(event Event) error {
	fmt.Println(event.Type, event.ID)
	time.Sleep(time.Second)
	if !mended {
		mended = true
		return fmt.Errorf("the database is away")
	}
	return nil
}`,
    ],
    file: 'receiver.go',
    program: ['go', 'version'],
    args: (file) => ['run', file],
  },
  {
    fence: 'php',
    slow: [
      /^function handle[\s\S]*?^\}/m,
      `function handle(array $event): void {
    error_log("{$event['type']} {$event['id']}");
    sleep(1);
    if (@mkdir(sys_get_temp_dir() . '/mended')) throw new RuntimeException('the database is away');
}`,
    ],
    file: 'receiver.php',
    program: ['php', '--version'],
    args: (file, port) => ['-S', `127.0.0.1:${port}`, file],
  },
]
const page = readFileSync(new URL('../../docs/webhooks.md', import.meta.url), 'utf8')
const programOf = ({ fence }: Language) =>
  new RegExp(`^\`\`\`${fence}\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(page)?.[1] ?? ''
const isInstalled = ({ program: [name, question] }: Language) => spawnSync(name, [question]).status === 0

test('the page has a receiver for each language, and at least two of them can be tried here', () => {
  expect(languages.filter((language) => programOf(language).length < 300)).toEqual([])
  expect(languages.filter(isInstalled).length).toBeGreaterThanOrEqual(2)
})

const secret = 'whsec_dGhlIHNlY3JldCBvZiB0aGUgcmVjZWl2ZXJzICEhISEhIQ'
let running: Receiver | undefined
afterEach(() => running?.stop())

describe.each(languages.filter(isInstalled).map((language) => [language.fence, language] as const))(
  'the receiver in %s',
  (_, language) => {
    test('takes what is genuine, once, and nothing else', async () => {
      running = await start(language)
      const { url, heard } = running
      const event = { id: crypto.randomUUID(), type: 'message.sent', data: { subject: 'Grüße 📯 / \u2028 "x"' } }
      const post = async ({ headers, body }: { headers: Record<string, string>; body: string }) =>
        (await fetch(url, { method: 'POST', headers, body })).status
      const good = signed(event, secret)
      const nowSeconds = Math.floor(Date.now() / 1000)
      const without = (name: string) =>
        Object.fromEntries(Object.entries(good.headers).filter(([each]) => each !== name))
      const answers = {
        good: await post(good),
        again: await post(signed(event, secret)),
        late: await post(signed(event, secret, nowSeconds - 310)),
        early: await post(signed(event, secret, nowSeconds + 310)),
        'another secret': await post(signed(event, 'whsec_other')),
        'another body': await post({ ...good, body: good.body.replace('sent', 'semt') }),
        'no signature': await post({ ...good, headers: without('webhook-signature') }),
        'no timestamp': await post({ ...good, headers: without('webhook-timestamp') }),
        'a strange timestamp': await post({ ...good, headers: { ...good.headers, 'webhook-timestamp': '1e3' } }),
        another: await post(signed({ ...event, id: crypto.randomUUID() }, secret)),
      }
      const { good: first, again, another, ...refused } = answers
      expect([first, again, another]).toEqual([204, 204, 204])
      expect(new Set(Object.values(refused))).toEqual(new Set([400]))
      await running.until(2)
      expect(heard.filter((line) => line.includes(event.id))).toHaveLength(1)
    })

    test('goes on while a request hangs, and after it broke off', async () => {
      running = await start(language)
      const { url } = running
      const good = async () => {
        const { headers, body } = signed({ id: crypto.randomUUID(), type: 'message.sent' }, secret)
        return (await fetch(url, { method: 'POST', headers, body })).status
      }
      const socket = connect(Number(new URL(url).port), '127.0.0.1').resume()
      socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"id":')
      expect(await good()).toBe(204)
      socket.end()
      await once(socket, 'close')
      expect(await good()).toBe(204)
    })

    // A try that was not answered within 15 seconds comes again 5 seconds later, and its work may still go on.
    test('does an event once that comes again while its work is under way, and again what failed', async () => {
      running = await start(language, secret, (program) => program.replace(...language.slow))
      const { url, heard } = running
      const { headers, body } = signed({ id: crypto.randomUUID(), type: 'message.sent' }, secret)
      const post = async () => (await fetch(url, { method: 'POST', headers, body })).status
      expect(await post()).toBe(500)
      expect(await Promise.all([post(), post(), post()])).toEqual([204, 204, 204])
      expect(await post()).toBe(204)
      await running.until(2)
      expect(heard).toHaveLength(2)
    }, 30_000)

    // Whoever takes it for "to the end" reads whatever a stranger sends.
    test('reads no body whose length is below zero', async () => {
      running = await start(language)
      const socket = connect(Number(new URL(running.url).port), '127.0.0.1')
      socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}')
      const answer = await Promise.race([once(socket, 'data').then(String), once(socket, 'close').then(() => ' 400 ')])
      expect(answer).toMatch(/ 4\d\d /)
      socket.destroy()
    }, 30_000)

    // Anybody can sign with an empty key.
    test('believes nobody while it has no secret', async () => {
      running = await start(language, '').catch(() => undefined)
      if (running === undefined) return
      const { headers, body } = signed({ id: crypto.randomUUID(), type: 'message.sent' }, '')
      expect((await fetch(running.url, { method: 'POST', headers, body })).status).toBeGreaterThanOrEqual(400)
    })
  },
)

interface Receiver {
  readonly url: string
  /** The lines in which it told what it handled. */
  readonly heard: readonly string[]
  until(count: number): Promise<void>
  stop(): Promise<void>
}

async function start(language: Language, key = secret, change = (program: string) => program): Promise<Receiver> {
  const folder = mkdtempSync(join(tmpdir(), 'posthorn-receiver-'))
  const file = join(folder, language.file)
  writeFileSync(file, change(programOf(language)))
  const port = await freePort()
  const child = spawn(language.program[0], language.args(file, port), {
    cwd: folder,
    // Without workers PHP's own server takes one request after the other, where others do not.
    env: { ...process.env, PHP_CLI_SERVER_WORKERS: '3', TMPDIR: folder, WEBHOOK_SECRET: key, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const heard: string[] = []
  const more = new Set<() => void>()
  for (const stream of [child.stdout, child.stderr])
    createInterface(stream).on('line', (line) => {
      if (!line.includes('message.')) return
      heard.push(line)
      for (const tell of more) tell()
    })
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/`,
    heard,
    until: async (count) => {
      while (heard.length < count) await new Promise<void>((resolve) => more.add(resolve))
    },
    stop: () => stop(child, folder),
  }
  try {
    await answering(receiver.url, child)
  } catch (error) {
    await receiver.stop()
    throw error
  }
  return receiver
}

/** A program says nothing when it listens: it is asked until it answers. `go run` compiles first. */
async function answering(url: string, child: ChildProcess): Promise<void> {
  for (;;) {
    if (child.exitCode !== null) throw new Error(`the receiver ended with ${child.exitCode}`)
    try {
      await fetch(url, { method: 'POST', body: '{}' })
      return
    } catch {
      await wait(20)
    }
  }
}

async function stop(child: ChildProcess, folder: string): Promise<void> {
  running = undefined
  if (child.exitCode === null && child.pid !== undefined) {
    const exited = once(child, 'exit')
    process.kill(-child.pid, 'SIGKILL') // its group: `go run` has a child
    await exited
  }
  rmSync(folder, { recursive: true, force: true })
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}
