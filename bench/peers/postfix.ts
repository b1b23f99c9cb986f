// A peer: Debian's Postfix, with OpenDKIM where it signs, sending to smtp-sink. An instance of its own: configuration, queue and data under
// the bench's folder, ports of the loopback.
//
// Postfix signs when it takes a mail in, never when it sends it, and neither releasing nor requeuing a held mail passes it through a
// milter. So there are two measures: `relay`, everything from smtp-source through the queue to smtp-sink, which is the shortest way on
// which it signs; and `release`, a held backlog let go, whose time holds no signature.
import { generateKeyPairSync } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { selfSigned } from '../../src/base/certificate.ts'
import { watchCpu } from '../cpu.ts'
import type { Usage } from '../cpu.ts'
import { freePorts } from '../../src/base/free-ports.ts'
import { atTheEnd, findProgram, folderIn, run, start } from '../processes.ts'
import { listens } from './sink.ts'
import type { Sink } from './sink.ts'

const domain = 'bench.example'

export interface Postfix {
  /** Takes `count` mails in and sends them: the rate from the first one in until the queue is empty. */
  relay(count: number): Promise<Drained>
  /** Holds `count` mails, then lets go of them: the rate until the queue is empty. */
  release(count: number): Promise<Drained>
  /** Ports that take mail and hold it, in clear text and over TLS from the first byte. */
  readonly holdingPort: number
  readonly tlsPort: number
  readonly pids: readonly number[]
  /** Deletes whatever it holds. */
  forget(): Promise<void>
  readonly stop: () => Promise<void>
}
export interface Drained {
  readonly perSecond: number
  readonly usage: Usage
}

/** Undefined where this cannot be: Postfix starts as root only, and both are Debian packages. */
export function whyNoPostfix(): string | undefined {
  if (process.getuid?.() !== 0) return 'Postfix starts as root only'
  const missing = ['postfix', 'smtp-source', 'smtp-sink', 'opendkim'].filter((name) => findProgram(name) === undefined)
  return missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined
}

const program = (name: string): string => findProgram(name) ?? name

export async function startPostfix(temporary: string, sink: Sink, signed: boolean): Promise<Postfix> {
  const folder = folderIn(temporary, signed ? 'postfix-signed' : 'postfix-unsigned')
  const [port = 0, holdingPort = 0, tlsPort = 0] = await freePorts(3)
  const milter = signed ? await startOpenDkim(folder) : undefined
  const config = configure(folder, services(port, holdingPort, tlsPort), sink.port, milter?.socket)
  const masterFile = join(folder, 'queue', 'pid', 'master.pid')
  const stop = atTheEnd(async () => {
    // Master is no child of ours: known by its file from the moment it lives.
    if (fs.existsSync(masterFile)) await run(program('postfix'), ['-c', config, 'stop'])
    await milter?.stop()
  })
  await run(program('postfix'), ['-c', config, 'check'])
  await run(program('postfix'), ['-c', config, 'start'])
  await listens(port, 10_000)
  const master = Number(fs.readFileSync(masterFile, 'utf8'))
  const pids = milter === undefined ? [master, sink.pid] : [master, milter.pid, sink.pid]

  const measure = async (count: number, work: () => Promise<void>, meanwhile: string): Promise<Drained> => {
    const usage = watchCpu(pids, meanwhile)
    const began = performance.now()
    await work()
    await empties(folder, count)
    const perSecond = count / ((performance.now() - began) / 1000)
    return { perSecond, usage: usage() }
  }
  return {
    holdingPort,
    tlsPort,
    pids,
    forget: async () => void (await run(program('postsuper'), ['-c', config, '-d', 'ALL'])),
    stop: async () => void (await stop()),
    relay: async (count) => {
      const drained = await measure(count, () => fill(port, count), 'smtp-source')
      if (signed) mustHaveSigned(drained, count)
      return drained
    },
    release: async (count) => {
      await fill(holdingPort, count)
      const held = waiting(folder, ['hold'])
      if (held !== count) throw new Error(`Postfix holds ${held} mails instead of ${count}`)
      const letGo = async (): Promise<void> => {
        await run(program('postsuper'), ['-c', config, '-H', 'ALL'])
        await run(program('postqueue'), ['-c', config, '-f'])
      }
      return measure(count, letGo, 'postsuper')
    },
  }
}

/** A signature costs about 240 microseconds of a core here: a milter that used a quarter of that has not signed. */
function mustHaveSigned({ usage, perSecond }: Drained, count: number): void {
  const seconds = (usage.byProgram.get('opendkim') ?? 0) * (count / perSecond)
  if (seconds < count * 60e-6)
    throw new Error(`OpenDKIM used ${seconds.toFixed(2)} s for ${count} mails: it did not sign`)
}

async function fill(port: number, count: number): Promise<void> {
  const args = ['-s', '20', '-l', '1024', '-m', `${count}`, '-d', '-N', '-f', `shop@${domain}`, '-t', 'u@example.com']
  await run(program('smtp-source'), [...args, `127.0.0.1:${port}`], { ms: 120_000 })
}

const queues = ['maildrop', 'incoming', 'active', 'deferred', 'hold']

async function empties(folder: string, count: number): Promise<void> {
  const deadline = Date.now() + 30_000 + count * 10
  for (let left = count; left > 0; left = waiting(folder, queues)) {
    if (Date.now() > deadline) throw new Error(`Postfix still has ${left} of ${count} mails`)
    // Counting costs the machine something: seldom while there are many.
    await setTimeout(left > 2_000 ? 500 : 50)
  }
}

function waiting(folder: string, names: readonly string[]): number {
  const count = (path: string): number =>
    fs.readdirSync(path, { withFileTypes: true }).reduce((sum, entry) => {
      return sum + (entry.isDirectory() ? count(join(path, entry.name)) : 1)
    }, 0)
  return names.reduce((sum, name) => sum + count(join(folder, 'queue', name)), 0)
}

function configure(folder: string, master: readonly string[], sinkPort: number, milter: string | undefined): string {
  const config = folderIn(folder, 'config')
  folderIn(folder, 'queue')
  const data = folderIn(folder, 'data')
  const { uid, gid } = accountOf('postfix')
  fs.chownSync(data, uid, gid)
  const chain = join(config, 'tls.pem')
  const { key, cert } = selfSigned(`mx.${domain}`, new Date())
  fs.writeFileSync(chain, key + cert, { mode: 0o600 })
  const settings = {
    compatibility_level: '3.6',
    queue_directory: join(folder, 'queue'),
    data_directory: data,
    daemon_directory: '/usr/lib/postfix/sbin',
    command_directory: '/usr/sbin',
    shlib_directory: '/usr/lib/postfix',
    meta_directory: '/etc/postfix',
    mail_owner: 'postfix',
    setgid_group: 'postdrop',
    inet_interfaces: '127.0.0.1',
    inet_protocols: 'ipv4',
    mynetworks: '127.0.0.0/8',
    myhostname: `mx.${domain}`,
    mydestination: '',
    alias_maps: '',
    alias_database: '',
    local_recipient_maps: '',
    relayhost: `[127.0.0.1]:${sinkPort}`,
    smtpd_relay_restrictions: 'permit_mynetworks, reject',
    smtpd_recipient_restrictions: 'permit_mynetworks, reject',
    smtpd_client_connection_count_limit: '0',
    smtp_tls_security_level: 'none',
    smtp_dns_support_level: 'disabled',
    default_destination_concurrency_limit: '50',
    initial_destination_concurrency: '20',
    smtpd_tls_chain_files: chain,
    smtpd_tls_loglevel: '0',
    // Postfix slows its own intake while mail goes out (in_flow_delay); here nobody waits for its intake.
    in_flow_delay: '0',
    smtpd_milters: milter === undefined ? '' : `unix:${milter}`,
    milter_default_action: 'tempfail',
    maximal_queue_lifetime: '1h',
  }
  fs.writeFileSync(
    join(config, 'main.cf'),
    lines(Object.entries(settings).map(([name, value]) => `${name} = ${value}`)),
  )
  fs.writeFileSync(join(config, 'master.cf'), lines(master))
  return config
}

/** Every service outside a chroot, because the milter's socket lies outside the queue. */
function services(port: number, holdingPort: number, tlsPort: number): string[] {
  const service = (name: string, type: string, wake: string, max: string, command: string): string =>
    `${name} ${type} ${type === 'inet' ? 'n' : '-'} - n ${wake} ${max} ${command}`
  return [
    service(`127.0.0.1:${port}`, 'inet', '-', '-', 'smtpd'),
    service(`127.0.0.1:${holdingPort}`, 'inet', '-', '-', 'smtpd'),
    '  -o smtpd_recipient_restrictions=check_recipient_access,static:HOLD,permit_mynetworks,reject',
    service(`127.0.0.1:${tlsPort}`, 'inet', '-', '-', 'smtpd'),
    '  -o smtpd_tls_wrappermode=yes',
    '  -o smtpd_recipient_restrictions=check_recipient_access,static:HOLD,permit_mynetworks,reject',
    'pickup unix n - n 1 1 pickup',
    'cleanup unix n - n - 0 cleanup',
    'qmgr unix n - n 300 1 qmgr',
    service('rewrite', 'unix', '-', '-', 'trivial-rewrite'),
    'tlsmgr unix - - n 1000? 1 tlsmgr',
    ...['bounce', 'defer', 'trace'].map((name) => service(name, 'unix', '-', '0', 'bounce')),
    service('verify', 'unix', '-', '1', 'verify'),
    'flush unix n - n 1000? 0 flush',
    service('proxymap', 'unix', '-', '-', 'proxymap'),
    service('smtp', 'unix', '-', '-', 'smtp'),
    service('relay', 'unix', '-', '-', 'smtp'),
    'showq unix n - n - - showq',
    service('error', 'unix', '-', '-', 'error'),
    service('retry', 'unix', '-', '-', 'error'),
    service('discard', 'unix', '-', '-', 'discard'),
    service('anvil', 'unix', '-', '1', 'anvil'),
    service('scache', 'unix', '-', '1', 'scache'),
  ]
}

async function startOpenDkim(folder: string): Promise<{ pid: number; socket: string; stop: () => Promise<void> }> {
  const place = folderIn(folder, 'opendkim')
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const key = join(place, 'key.pem')
  fs.writeFileSync(key, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  const { uid, gid } = accountOf('postfix')
  for (const each of [place, key]) fs.chownSync(each, uid, gid)
  const socket = join(place, 'milter.socket')
  const settings = [
    `Domain ${domain}`,
    'Selector bench',
    `KeyFile ${key}`,
    `Socket local:${socket}`,
    'Mode s',
    'Canonicalization relaxed/relaxed',
    'SignatureAlgorithm rsa-sha256',
    'Syslog no',
    'UserID postfix',
    'UMask 007',
    // It dislikes every folder below /tmp.
    'RequireSafeKeys no',
    'Background no',
    'AutoRestart no',
  ]
  fs.writeFileSync(join(place, 'opendkim.conf'), lines(settings))
  const opendkim = start({
    name: 'opendkim',
    command: program('opendkim'),
    args: ['-f', '-x', join(place, 'opendkim.conf')],
    folder: place,
  })
  const deadline = Date.now() + 5_000
  while (!fs.existsSync(socket)) {
    if (Date.now() > deadline) throw new Error(`OpenDKIM made no socket in 5 s: ${opendkim.said()}`)
    await setTimeout(20)
  }
  return { pid: opendkim.pid, socket, stop: opendkim.stop }
}

function accountOf(name: string): { uid: number; gid: number } {
  const fields = fs
    .readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  const found = fields.find(([user]) => user === name)
  if (found === undefined) throw new Error(`there is no user ${name}: Postfix is not installed`)
  return { uid: Number(found[2]), gid: Number(found[3]) }
}

const lines = (each: readonly string[]): string => `${each.join('\n')}\n`
