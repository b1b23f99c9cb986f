// A real relay: Debian's Postfix with a configuration, a queue and a port of its own. It asks for STARTTLS and a login, says in its
// Received field how it was given the mail, and hands everything on to one host.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { connect, createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Certificate } from './certificates.ts'
import { wholeWithUs } from './with-us.ts'

const exec = promisify(execFile)

export interface PostfixOptions {
  readonly login: { readonly user: string; readonly password: string }
  readonly certificate: Certificate
  /** Where it hands everything on to: a port on loopback. */
  readonly nextPort: number
  /** A login that the next host asks for, over STARTTLS. */
  readonly nextLogin?: { readonly user: string; readonly password: string }
  /** A policy service on loopback, asked at each recipient and at the end of each mail, before the answer. */
  readonly policyPort?: number
}

export interface Postfix {
  readonly port: number
  /** Its log. */
  said(): string
  stop(): Promise<void>
}

export async function startPostfix(options: PostfixOptions): Promise<Postfix> {
  const { login, certificate, nextPort, nextLogin, policyPort } = options
  if (!existsSync('/usr/sbin/saslpasswd2'))
    throw new Error('This journey needs saslpasswd2 (Debian: sasl2-bin, libsasl2-modules).')
  return runPostfix(async (home, postfixUser) => {
    const at = (name: string) => join(home, name)
    mkdirSync(at('sasl'))
    copyFileSync(certificate.certFile, at('cert.pem'))
    copyFileSync(certificate.keyFile, at('key.pem'))
    // Debian's Postfix looks below its configuration folder, others where cyrus_sasl_config_path says.
    writeFileSync(
      at('sasl/smtpd.conf'),
      `pwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: ${at('sasldb2')}\nmech_list: PLAIN LOGIN\n`,
    )
    const setPassword = spawn(
      '/usr/sbin/saslpasswd2',
      ['-p', '-c', '-f', at('sasldb2'), '-u', 'relay.test', login.user],
      {
        stdio: ['pipe', 'ignore', 'inherit'],
      },
    )
    setPassword.stdin.end(login.password)
    await once(setPassword, 'exit')
    chownSync(at('sasldb2'), postfixUser, -1)
    return mainCf(home, nextPort) + loginCf(nextPort, nextLogin) + policyCf(policyPort)
  })
}

/** Runs a Postfix of its own. `configure` makes its files in a folder that it gets, and answers what main.cf says beside the paths. */
export async function runPostfix(configure: (home: string, postfixUser: number) => Promise<string>): Promise<Postfix> {
  if (process.getuid?.() !== 0 || !existsSync('/usr/sbin/postfix'))
    throw new Error('This journey needs Postfix (Debian: postfix) and root, which Postfix starts as.')
  // Below /var: Postfix writes its log nowhere else.
  const home = mkdtempSync(join(existsSync('/var/tmp') ? '/var/tmp' : tmpdir(), 'posthorn-postfix-'))
  chmodSync(home, 0o755)
  const at = (name: string) => join(home, name)
  const postfixUser = Number((await exec('id', ['-u', 'postfix'])).stdout)
  const port = await freePort()
  for (const name of ['queue', 'data']) mkdirSync(at(name))
  chownSync(at('data'), postfixUser, -1)
  writeFileSync(at('main.cf'), `${pathsCf(home)}${await configure(home, postfixUser)}`)
  writeFileSync(at('master.cf'), masterCf(port))

  const said = () => (existsSync(at('log')) ? readFileSync(at('log'), 'utf8') : '')
  const child = spawn(...wholeWithUs('/usr/sbin/postfix', ['-c', home, 'start-fg']), { stdio: 'ignore' })
  const exited = once(child, 'exit')
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
    throw new Error(`Postfix does not start: ${words}`, { cause: error })
  }
  return { port, said, stop }
}

const pathsCf = (home: string) => `
compatibility_level = 3.6
queue_directory = ${home}/queue
data_directory = ${home}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
maillog_file = ${home}/log
maillog_file_prefixes = ${home}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
`

const mainCf = (home: string, nextPort: number) => `
myhostname = relay.test
mydestination =
alias_maps =
alias_database =
mynetworks =
relayhost = [127.0.0.1]:${nextPort}
smtpd_tls_security_level = may
smtpd_tls_auth_only = yes
smtpd_tls_cert_file = ${home}/cert.pem
smtpd_tls_key_file = ${home}/key.pem
smtpd_tls_received_header = yes
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = cyrus
smtpd_sasl_path = smtpd
smtpd_sasl_local_domain = relay.test
smtpd_sasl_authenticated_header = yes
cyrus_sasl_config_path = ${home}/sasl
smtpd_relay_restrictions = permit_sasl_authenticated, reject
`

const loginCf = (nextPort: number, login: PostfixOptions['nextLogin']) =>
  login === undefined
    ? 'smtp_tls_security_level = none\n'
    : `
smtp_tls_security_level = encrypt
smtp_sasl_auth_enable = yes
smtp_sasl_security_options = noanonymous
smtp_sasl_mechanism_filter = plain, login
smtp_sasl_password_maps = inline:{ [127.0.0.1]:${nextPort}=${login.user}:${login.password} }
`

const policyCf = (port: PostfixOptions['policyPort']) =>
  port === undefined
    ? ''
    : `
smtpd_recipient_restrictions = check_policy_service inet:127.0.0.1:${port}
smtpd_end_of_data_restrictions = check_policy_service inet:127.0.0.1:${port}
`

const masterCf = (port: number) => `
127.0.0.1:${port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
smtp unix - - n - - smtp
retry unix - - n - - error
error unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
proxymap unix - - n - - proxymap
postlog unix-dgram n - n - 1 postlogd
`

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await once(server.close(), 'close')
  return port
}

/** A listener comes a moment after its process; the first word of its server is the proof that it serves. */
export async function greeting(port: number): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return await firstWord(port)
    } catch (error) {
      if (tries === 1_200) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

async function firstWord(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1').setTimeout(10_000, () => socket.destroy(new Error('no greeting')))
  const [first] = (await once(socket, 'data')) as [Buffer]
  socket.end('QUIT\r\n')
  socket.on('error', () => undefined)
  if (!first.toString('latin1').startsWith('220 ')) throw new Error(`it says ${first.toString('latin1')}`)
}
