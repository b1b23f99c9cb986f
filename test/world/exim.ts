// A receiving provider of another family: Debian's Exim, unpacked beside Postfix (bin/test-packages), with a configuration, a spool and a port
// of its own. It takes every recipient and finds out afterwards.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort, greeting } from './postfix.ts'
import { wholeWithUs } from './with-us.ts'

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
  const { home, config } = await homeOf((folder) => configOf(folder, options))
  const port = await freePort()
  // -q1s: looks at its queue every second.
  const child = spawn(...wholeWithUs(exim, ['-C', config, '-bdf', '-q1s', '-oX', `127.0.0.1.${port}`]), {
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
    child.kill('SIGKILL')
    await exited
    // The others end a moment after it.
    rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  }
  try {
    await Promise.race([greeting(port), exited.then(() => Promise.reject(new Error('it has ended')))])
  } catch (error) {
    const words = said().slice(-2_000)
    await stop()
    throw new Error(`Exim does not start: ${words}`, { cause: error })
  }
  return { port, said, stop }
}

/**
 * Hands a mail to an Exim whose smarthost asks for STARTTLS and a login, and lets it deliver. Answers its log. What it could not deliver it forgets.
 */
export async function submitThroughExim(
  next: { readonly port: number; readonly user: string; readonly password: string },
  { from, to, mail }: { readonly from: string; readonly to: readonly string[]; readonly mail: string },
): Promise<string> {
  const { home, config } = await homeOf((folder) => smarthostConfigOf(folder, next))
  try {
    // -odi: it comes back when it has tried.
    const args = ['-C', config, '-odi', '-i', '-f', from, ...to]
    const child = spawn(...wholeWithUs(exim, args), { stdio: ['pipe', 'ignore', 'inherit'] })
    child.stdin.end(mail)
    await once(child, 'exit')
    return readFileSync(join(home, 'log', 'main'), 'utf8')
  } finally {
    rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  }
}

/** A folder of Exim's own, with its configuration. */
async function homeOf(configIn: (home: string) => string): Promise<{ home: string; config: string }> {
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
  writeFileSync(config, configIn(home))
  return { home, config }
}

const smarthostConfigOf = (
  home: string,
  { port, user, password }: { port: number; user: string; password: string },
) => `
${mainOf(home)}
primary_hostname = box.test
begin routers
next:
  driver = manualroute
  route_list = * 127.0.0.1 byname
  self = send
  transport = next
begin transports
next:
  driver = smtp
  port = ${port}
  allow_localhost
  hosts_require_tls = *
  hosts_require_auth = *
  tls_verify_hosts =
  tls_try_verify_hosts =
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  client_send = ^${user}^${password}
`

const mainOf = (home: string) => `
exim_path = ${exim}
spool_directory = ${home}/spool
log_file_path = ${home}/log/%s
pid_file_path =
keep_environment =
exim_user = Debian-exim
exim_group = Debian-exim
never_users =
deliver_drop_privilege
`

const configOf = (home: string, { domain, returnPath }: EximOptions) => `
${mainOf(home)}
primary_hostname = mx.${domain}
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
