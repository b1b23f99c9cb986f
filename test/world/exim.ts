// A receiving provider of another family: Debian's Exim, unpacked beside Postfix (bin/test-packages), with a configuration, a spool and a port
// of its own. It takes every recipient and finds out afterwards.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort, greeting } from './postfix.ts'

const exim = '/var/cache/posthorn-tests/usr/sbin/exim4'

export interface EximOptions {
  readonly domain: string
  /** Where return paths lead: host name and port on loopback. */
  readonly returnPath: { readonly host: string; readonly port: number }
}

export interface Exim {
  readonly port: number
  /** Its log. */
  said(): string
  stop(): Promise<void>
}

/** `ann@` has a mailbox, `full@` one over its quota, `later@` is put off, `policy@` is refused; nobody else is known. */
export async function startExim(options: EximOptions): Promise<Exim> {
  if (process.getuid?.() !== 0 || !existsSync(exim))
    throw new Error(`This journey needs Exim in ${exim} (bin/test-packages unpacks it there) and root.`)
  const exec = promisify(execFile)
  const [user, group] = await Promise.all(
    ['-u', '-g'].map(async (what) => Number((await exec('id', [what, 'Debian-exim'])).stdout)),
  )
  const home = mkdtempSync(join(tmpdir(), 'posthorn-exim-'))
  chownSync(home, user ?? 0, group ?? 0)
  for (const name of ['spool', 'mail', 'log']) {
    mkdirSync(join(home, name))
    chownSync(join(home, name), user ?? 0, group ?? 0)
  }
  const config = join(home, 'exim.conf')
  writeFileSync(config, configOf(home, options))
  const port = await freePort()
  // -q1s: looks at its queue every second. In the foreground, so that it is ours to end.
  const child = spawn(exim, ['-C', config, '-bdf', '-q1s', '-oX', `127.0.0.1.${port}`], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (complaints += text))
  const exited = once(child, 'exit')
  const said = () =>
    ['main', 'panic']
      .map((name) => join(home, 'log', name))
      .filter((path) => existsSync(path))
      .map((path) => readFileSync(path, 'utf8'))
      .join('') + complaints
  const stop = async () => {
    child.kill('SIGTERM')
    await exited
    // Its queue runners end a moment after it.
    rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  }
  try {
    await Promise.race([greetingOf(port), exited.then(() => Promise.reject(new Error('it has ended')))])
  } catch (error) {
    const words = said().slice(-2_000)
    await stop()
    throw new Error(`Exim does not start: ${words}`, { cause: error })
  }
  return { port, said, stop }
}

/** Its listener comes a moment after its process. */
async function greetingOf(port: number): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return await greeting(port)
    } catch (error) {
      if (tries === 100) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

const configOf = (home: string, { domain, returnPath }: EximOptions) => `
exim_path = ${exim}
primary_hostname = mx.${domain}
spool_directory = ${home}/spool
log_file_path = ${home}/log/%s
pid_file_path =
keep_environment =
exim_user = Debian-exim
exim_group = Debian-exim
never_users =
deliver_drop_privilege
tls_advertise_hosts =
dsn_advertise_hosts = *
acl_smtp_rcpt = accept
acl_smtp_data = accept
delay_warning = 1s
# The loopback is where everybody lives here.
local_interfaces = 127.0.0.1
trusted_users =
begin routers
back:
  driver = manualroute
  domains = ${returnPath.host}
  route_list = * 127.0.0.1 byname
  self = send
  transport = back
policy:
  driver = redirect
  domains = ${domain}
  local_parts = policy
  allow_fail
  data = :fail: 550 5.7.1 message rejected as spam by content filter
later:
  driver = redirect
  domains = ${domain}
  local_parts = later
  allow_defer
  data = :defer: mailbox temporarily not available
ann:
  driver = accept
  domains = ${domain}
  local_parts = ann
  transport = keep
full:
  driver = accept
  domains = ${domain}
  local_parts = full
  transport = keep_little
unknown:
  driver = redirect
  domains = ${domain}
  allow_fail
  data = :fail: 550 5.1.1 <$local_part@$domain>: User unknown
begin transports
back:
  driver = smtp
  port = ${returnPath.port}
  allow_localhost
  hosts_try_chunking =
keep:
  driver = appendfile
  file = ${home}/mail/ann
  user = Debian-exim
  group = Debian-exim
keep_little:
  driver = appendfile
  file = ${home}/mail/full
  user = Debian-exim
  group = Debian-exim
  quota = 100
begin retry
full@${domain} quota
* * F,1h,1s
`
