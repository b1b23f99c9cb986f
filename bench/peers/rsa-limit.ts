// The physical limit of DKIM on this machine: RSA-2048 signatures a second on all cores, as OpenSSL itself measures them.
import { cores, watchCpu } from '../cpu.ts'
import type { Usage } from '../cpu.ts'
import { findProgram, run } from '../processes.ts'

export interface RsaLimit {
  readonly perSecond: number
  readonly usage: Usage
}

export async function measureRsaLimit(seconds: number): Promise<RsaLimit> {
  const openssl = findProgram('openssl')
  if (openssl === undefined) throw new Error('openssl is not installed (bench/setup.sh)')
  const usage = watchCpu([], 'openssl')
  const words = await run(openssl, ['speed', '-seconds', `${seconds}`, '-multi', `${cores}`, 'rsa2048'], {
    ms: (seconds * 6 + 20) * 1000,
  })
  // Two lines at the end: the names of the columns, of which the first belongs to no name, and the figures.
  const titles = /^ +(sign .*)$/m.exec(words)?.[1]?.trim().split(/\s+/)
  const figures = /^rsa +2048 bits +(.*)$/m.exec(words)?.[1]?.trim().split(/\s+/)
  const perSecond = Number(figures?.[titles?.indexOf('sign/s') ?? -1])
  if (!(perSecond > 0)) throw new Error(`openssl speed printed no signatures per second: ${words.slice(-300)}`)
  return { perSecond, usage: usage() }
}
