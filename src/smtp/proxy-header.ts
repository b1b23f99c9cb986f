// The PROXY protocol, versions 1 and 2 (https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt): what a proxy that passes connections on
// says before its client's first byte, so that the client has an address.
import { isIP, SocketAddress } from 'node:net'
import { limits } from '../config.ts'

export interface ProxyHeader {
  /** In bytes. What follows is the client's. */
  readonly length: number
  /** The client's. Undefined: the proxy speaks for itself (a health check), or does not know. */
  readonly address: string | undefined
}

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const beginning = Buffer.from('PROXY ')
const lineBytesMax = 107
const fixedBytes = 16

/** Of what has come so far; undefined while more has to come. */
export function readProxyHeader(bytes: Buffer): ProxyHeader | 'malformed' | undefined {
  if (begins(bytes, signature)) return bytes.length < fixedBytes ? undefined : binary(bytes)
  if (begins(bytes, beginning)) return line(bytes)
  return 'malformed'
}

/** As far as it has come. */
const begins = (bytes: Buffer, words: Buffer): boolean =>
  bytes.subarray(0, words.length).equals(words.subarray(0, bytes.length))

/** `PROXY TCP4 192.0.2.1 198.51.100.1 40000 587` CR LF. */
function line(bytes: Buffer): ProxyHeader | 'malformed' | undefined {
  const end = bytes.subarray(0, lineBytesMax).indexOf('\r\n')
  if (end < 0) return bytes.length < lineBytesMax ? undefined : 'malformed'
  const length = end + 2
  const [, family, source = '', destination = '', ...ports] = bytes.toString('latin1', 0, end).split(' ')
  if (family === 'UNKNOWN') return { length, address: undefined }
  const version = family === 'TCP4' ? 4 : family === 'TCP6' ? 6 : undefined
  const isWhole = ports.length === 2 && ports.every((port) => /^\d{1,5}$/.test(port) && Number(port) < 65_536)
  if (version === undefined || !isWhole || isIP(source) !== version || isIP(destination) !== version) return 'malformed'
  return { length, address: plain(source) }
}

/** 12 bytes that no other protocol begins with, version and command, family, length; then addresses, and whatever else the proxy tells. */
function binary(bytes: Buffer): ProxyHeader | 'malformed' | undefined {
  const [command = 0, family = 0] = bytes.subarray(signature.length)
  const length = fixedBytes + bytes.readUInt16BE(signature.length + 2)
  if (command >> 4 !== 2 || (command & 15) > 1 || length > limits.proxyHeaderBytesMax) return 'malformed'
  if (bytes.length < length) return undefined
  const isLocal = (command & 15) === 0
  const source = { 1: 4, 2: 16 }[family >> 4]
  if (isLocal || source === undefined) return { length, address: undefined }
  // Two addresses, two ports.
  if (length < fixedBytes + 2 * source + 4) return 'malformed'
  const octets = bytes.subarray(fixedBytes, fixedBytes + source)
  return {
    length,
    address: plain(source === 4 ? octets.join('.') : octets.toString('hex').replace(/....(?=.)/g, '$&:')),
  }
}

/** In its short form; IPv4 that is written as IPv6 as what it is. */
function plain(address: string): string {
  if (isIP(address) === 4) return address
  return new SocketAddress({ family: 'ipv6', address }).address.replace(/^::ffff:(?=.*\.)/, '')
}
