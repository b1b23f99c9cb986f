// Debian's HAProxy in front of a server on this machine, which it tells whose each connection is.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePorts } from '../../src/base/free-ports.ts'
import { withUs } from './with-us.ts'

const program = '/usr/sbin/haproxy'

export interface Haproxy {
  readonly port: number
  stop(): Promise<void>
}

/** `says`: how, in HAProxy's words (`send-proxy`, `send-proxy-v2`, with `check-send-proxy` its health checks too). */
export async function startHaproxy(toPort: number, says: string): Promise<Haproxy> {
  if (!existsSync(program)) throw new Error('This test needs HAProxy (Debian: haproxy).')
  const home = mkdtempSync(join(tmpdir(), 'posthorn-haproxy-'))
  const [port] = (await freePorts(1)) as [number]
  const config = join(home, 'haproxy.cfg')
  writeFileSync(
    config,
    `defaults
  mode tcp
  timeout connect 5s
  timeout client 20s
  timeout server 20s
listen submission
  bind 127.0.0.1:${port}
  server posthorn 127.0.0.1:${toPort} ${says}
`,
  )
  const child = spawn(...withUs(program, ['-db', '-f', config]), { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    rmSync(home, { recursive: true, force: true })
  }
  for (;;) {
    if (child.exitCode !== null) {
      await stop()
      throw new Error(`HAProxy ended: ${said}`)
    }
    const socket = connect(port, '127.0.0.1')
    const taken = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'error').then(() => false),
    ]).catch(() => false)
    socket.destroy()
    if (taken) return { port, stop }
  }
}
