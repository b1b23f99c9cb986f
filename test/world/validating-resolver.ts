// A signed zone (Knot) and a resolver that validates it (Unbound), Debian's, on high loopback ports with folders of their own. The resolver
// also believes that `forged.test` is signed, which it is not: that name is how a resolver shows that it validates. Nobody believes anything
// of `unsigned.test`, where one host lives.
import { spawn, type ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import packet from 'dns-packet'
import { withUs } from './with-us.ts'

export interface ValidatingResolver {
  /** Unbound: sets AD. */
  readonly address: string
  /** Knot: knows the zone, and vouches for nothing. */
  readonly authority: string
  /** For the self-test: a signed name and one that must be refused. */
  readonly probes: readonly [signed: string, forged: string]
  stop(): Promise<void>
}

const [knotd, unbound] = ['/usr/sbin/knotd', '/usr/sbin/unbound']

/** `records`: lines of a zone file below `zone`. Ports are looked for and then used, so somebody may come between: a few tries. */
export async function startValidatingResolver(zone: string, records: readonly string[]): Promise<ValidatingResolver> {
  for (let tries = 1; ; tries++) {
    try {
      return await startBoth(zone, records)
    } catch (error) {
      if (tries === 4) throw error
    }
  }
}

async function startBoth(zone: string, records: readonly string[]): Promise<ValidatingResolver> {
  if (!existsSync(knotd) || !existsSync(unbound))
    throw new Error('This test needs Knot and Unbound (Debian: knot, unbound).')
  const home = mkdtempSync(join(tmpdir(), 'posthorn-dns-'))
  const at = (name: string) => join(home, name)
  const [knotPort, unboundPort] = await freePorts()
  const programs: ChildProcess[] = []
  const start = (name: string, program: string, args: readonly string[]) => {
    const child = spawn(...withUs(program, args), { stdio: ['ignore', 'ignore', 'ignore'] })
    child.on('error', () => undefined)
    programs.push(child)
    return { name, child }
  }
  const stop = async () => {
    for (const child of programs.splice(0).toReversed()) {
      if (child.exitCode !== null || child.pid === undefined) continue
      const gone = once(child, 'exit')
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), 3_000)
      await gone
      clearTimeout(timer)
    }
    rmSync(home, { recursive: true, force: true })
  }

  for (const folder of ['zones', 'run', 'keys']) mkdirSync(at(folder))
  const head = ['$TTL 60', '@ IN SOA ns post 1 60 60 60 30', '@ IN NS ns', 'ns IN A 127.0.0.1']
  writeFileSync(at(`zones/${zone}.zone`), [`$ORIGIN ${zone}.`, ...head, ...records, ''].join('\n'))
  for (const name of ['forged.test', 'unsigned.test'])
    writeFileSync(at(`zones/${name}.zone`), [`$ORIGIN ${name}.`, ...head, '@ IN A 127.0.0.1', ''].join('\n'))
  writeFileSync(at('knot.conf'), knotConfig(home, zone, knotPort))
  try {
    const knot = start('knot', knotd, ['-c', at('knot.conf')])
    const key = await keyOf(zone, knotPort, knot.child)
    writeFileSync(at('anchors'), `${zone}. 60 IN DNSKEY ${key}\nforged.test. 60 IN DNSKEY ${key}\n`)
    writeFileSync(at('unbound.conf'), unboundConfig(home, zone, knotPort, unboundPort))
    const validator = start('unbound', unbound, ['-d', '-c', at('unbound.conf')])
    await untilAnswered(zone, unboundPort, validator.child)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    address: `127.0.0.1:${unboundPort}`,
    authority: `127.0.0.1:${knotPort}`,
    probes: [zone, 'forged.test'],
    stop,
  }
}

const knotConfig = (home: string, zone: string, port: number) => `
server:
    listen: 127.0.0.1@${port}
    rundir: "${home}/run"
    background-workers: 1
    udp-workers: 1
    tcp-workers: 1
database:
    storage: "${home}/keys"
policy:
  - id: p
    algorithm: ecdsap256sha256
    single-type-signing: on
zone:
  - domain: ${zone}
    storage: "${home}/zones"
    dnssec-signing: on
    dnssec-policy: p
  - domain: forged.test
    storage: "${home}/zones"
  - domain: unsigned.test
    storage: "${home}/zones"
`

const unboundConfig = (home: string, zone: string, knotPort: number, port: number) => `
server:
  interface: 127.0.0.1
  port: ${port}
  username: ""
  chroot: ""
  directory: "${home}"
  pidfile: "${home}/unbound.pid"
  do-not-query-localhost: no
  use-syslog: no
  logfile: "${home}/unbound.log"
  module-config: "validator iterator"
  num-threads: 1
  so-rcvbuf: 0
  trust-anchor-file: "${home}/anchors"
  local-zone: "test." nodefault
stub-zone:
  name: "${zone}"
  stub-addr: 127.0.0.1@${knotPort}
stub-zone:
  name: "forged.test"
  stub-addr: 127.0.0.1@${knotPort}
stub-zone:
  name: "unsigned.test"
  stub-addr: 127.0.0.1@${knotPort}
remote-control:
  control-enable: no
`

/** The zone's public key in the form of a zone file, once it has been signed. */
async function keyOf(zone: string, port: number, program: ChildProcess): Promise<string> {
  const answer = await untilAnswered(zone, port, program, 'DNSKEY')
  const record = answer.answers?.find(({ type }) => type === 'DNSKEY')
  if (record?.type !== 'DNSKEY') throw new Error(`${zone} has no key`)
  return `${record.data.flags} 3 ${record.data.algorithm} ${Buffer.from(record.data.key).toString('base64')}`
}

async function untilAnswered(
  name: string,
  port: number,
  program: ChildProcess,
  type: 'SOA' | 'DNSKEY' = 'SOA',
): Promise<packet.DecodedPacket> {
  for (let tries = 0; tries < 200; tries++) {
    if (program.exitCode !== null) throw new Error(`${program.spawnfile} ended with ${program.exitCode}`)
    const answer = await ask(name, type, port)
    if (answer !== undefined && (answer.answers?.length ?? 0) > 0) return answer
  }
  throw new Error(`${program.spawnfile} does not answer`)
}

async function ask(name: string, type: 'SOA' | 'DNSKEY', port: number): Promise<packet.DecodedPacket | undefined> {
  const socket = createSocket('udp4')
  try {
    const question = packet.encode({
      type: 'query',
      id: randomInt(65_536),
      flags: packet.RECURSION_DESIRED,
      questions: [{ type, name }],
    })
    return await new Promise((resolve) => {
      const timer = setTimeout(() => resolve(undefined), 100)
      socket.on('error', () => undefined)
      socket.on('message', (bytes) => {
        clearTimeout(timer)
        const answer = packet.decode(bytes)
        // An early "no" is asked again a little later.
        if ((answer.answers?.length ?? 0) > 0) resolve(answer)
        else setTimeout(() => resolve(answer), 50)
      })
      socket.send(question, port, '127.0.0.1')
    })
  } finally {
    socket.close()
  }
}

async function freePorts(): Promise<[number, number]> {
  const servers = [createServer(), createServer()]
  const ports = await Promise.all(
    servers.map(async (server) => {
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      return (server.address() as AddressInfo).port
    }),
  )
  await Promise.all(servers.map((server) => once(server.close(), 'close')))
  return ports as [number, number]
}
