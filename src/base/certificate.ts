// The certificate of our SMTP servers: the files that are set, or a self-signed one that is made once and kept in the data folder, so that
// a client that trusts it goes on doing so. X.509 (RFC 5280) in the few bytes of DER (X.690) that such a certificate needs.
import { createPrivateKey, generateKeyPairSync, randomBytes, sign, X509Certificate } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { join } from 'node:path'
import type { Settings } from '../config.ts'

/** PEM. */
export interface TlsCertificate {
  readonly key: string
  readonly cert: string
}

type From = Pick<Settings, 'POSTHORN_TLS_CERT' | 'POSTHORN_TLS_KEY' | 'POSTHORN_DATA_DIR' | 'POSTHORN_HOSTNAME'>

/** Throws, with the setting's name, where the files cannot be used. */
export function tlsCertificate(settings: From): TlsCertificate {
  const { POSTHORN_TLS_CERT: cert, POSTHORN_TLS_KEY: key } = settings
  if (cert === undefined || key === undefined) return keptCertificate(settings)
  const given = { cert: readSetting('POSTHORN_TLS_CERT', cert), key: readSetting('POSTHORN_TLS_KEY', key) }
  let matches: boolean
  try {
    matches = new X509Certificate(given.cert).checkPrivateKey(createPrivateKey(given.key))
  } catch (cause) {
    throw new Error('POSTHORN_TLS_CERT and POSTHORN_TLS_KEY must be PEM files of a certificate and its key', { cause })
  }
  if (!matches) throw new Error('POSTHORN_TLS_KEY is not the key of POSTHORN_TLS_CERT')
  return given
}

function readSetting(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    throw new Error(`${name}: ${(cause as Error).message}`, { cause })
  }
}

function keptCertificate({ POSTHORN_DATA_DIR: folder, POSTHORN_HOSTNAME: hostname }: From): TlsCertificate {
  const path = join(folder, 'smtp-tls.pem')
  const kept = readIfThere(path)
  if (kept !== undefined) return parted(kept)
  const { key, cert } = selfSigned(hostname, new Date())
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const draft = `${path}.${process.pid}.${randomBytes(6).toString('hex')}`
  try {
    writeFileSync(draft, key + cert, { mode: 0o600, flush: true })
    linkSync(draft, path) // of two that start together, the first wins and both read it
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft, { force: true })
  }
  return parted(readFileSync(path, 'utf8'))
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function parted(pem: string): TlsCertificate {
  const at = pem.indexOf('-----BEGIN CERTIFICATE-----')
  return { key: pem.slice(0, at), cert: pem.slice(at) }
}

const days = 3_650

/** For this name, and for clients on this machine. */
export function selfSigned(hostname: string, now: Date): TlsCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const name = sequence(set(sequence(oid('2.5.4.3'), tagged(0x0c, Buffer.from(hostname.slice(0, 64))))))
  const algorithm = sequence(oid('1.2.840.10045.4.3.2')) // ecdsa-with-SHA256
  const serial = randomBytes(16)
  serial[0] = ((serial[0] as number) & 0x7f) | 0x40 // positive, and no leading zero
  const validity = sequence(utcTime(now.getTime() - 86_400_000), utcTime(now.getTime() + days * 86_400_000))
  const names = [hostname, 'localhost'].map((each) => tagged(0x82, Buffer.from(each)))
  const addresses = ['127.0.0.1', '::1'].map((each) => tagged(0x87, octetsOf(each)))
  const extensions = sequence(
    sequence(oid('2.5.29.19'), tagged(0x01, Buffer.of(0xff)), tagged(0x04, sequence())), // no authority
    sequence(oid('2.5.29.17'), tagged(0x04, sequence(...new Set(names), ...addresses))),
    sequence(oid('2.5.29.37'), tagged(0x04, sequence(oid('1.3.6.1.5.5.7.3.1')))), // a server
  )
  const body = sequence(
    tagged(0xa0, tagged(0x02, Buffer.of(2))), // version 3
    tagged(0x02, serial),
    algorithm,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, extensions),
  )
  const signature = tagged(0x03, Buffer.concat([Buffer.of(0), sign('sha256', body, privateKey)]))
  const lines =
    sequence(body, algorithm, signature)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
  }
}

function tagged(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  const { length } = content
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...head]), content])
}
const sequence = (...contents: readonly Buffer[]): Buffer => tagged(0x30, ...contents)
const set = (...contents: readonly Buffer[]): Buffer => tagged(0x31, ...contents)

function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const octets = [first * 40 + second]
  for (const number of rest) {
    const digits = [number & 0x7f]
    for (let left = number >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80)
    octets.push(...digits)
  }
  return tagged(0x06, Buffer.from(octets))
}

/** Two digits of the year stand for 1950 to 2049; later years need the longer form (RFC 5280 4.1.2.5). */
function utcTime(at: number): Buffer {
  const digits = `${new Date(at).toISOString().replace(/\D/g, '').slice(0, 14)}Z`
  return digits < '2050' ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits))
}

function octetsOf(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number))
  const loopback = Buffer.alloc(16) // ::1
  loopback[15] = 1
  return loopback
}
