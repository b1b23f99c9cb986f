// The certificate of our SMTP servers: the files that are set, or a self-signed one that is made once for a name and kept in the data folder,
// so that a client that trusts it goes on doing so. X.509 (RFC 5280) in the few bytes of DER (X.690) that such a certificate needs.
import { createPrivateKey, generateKeyPairSync, randomBytes, sign, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import type { Settings } from '../config.ts'
import { dataFolderMode } from './data-folder.ts'
import { makeDurably, makeFolders, replaceDurably } from './folders.ts'
import { isFullName } from './full-name.ts'
import type { Log } from './log.ts'
import { Trouble } from './trouble.ts'

/** PEM. */
export interface TlsCertificate {
  readonly key: string
  readonly cert: string
}

type From = Pick<Settings, 'POSTHORN_TLS_CERT' | 'POSTHORN_TLS_KEY' | 'POSTHORN_DATA_DIR' | 'POSTHORN_HOSTNAME'>

/** Throws, with the setting's name, where the files cannot be used. */
export function tlsCertificate(settings: From, now = new Date()): TlsCertificate {
  return givenCertificate(settings) ?? keptCertificate(settings, now)
}

type Files = Pick<Settings, 'POSTHORN_TLS_CERT' | 'POSTHORN_TLS_KEY'>

/** The files that are set; undefined where none are. */
export function givenCertificate(settings: Files): TlsCertificate | undefined {
  const { given, mistakes } = lookAtFiles(settings)
  if (mistakes.length > 0) throw new Trouble(mistakes.join('; '))
  return given
}

export interface Renewals {
  /** What is used now. */
  readonly shown: TlsCertificate
  /** Asked now and then, by one server: what the files hold, once that is something else. */
  readonly renewed: () => TlsCertificate | undefined
}

/** While the files cannot be used (half a renewal, a file that nobody may read), nothing changes, and the log says why. */
export function renewals(settings: Files, used: TlsCertificate, log: Log): Renewals {
  let shown = used
  return {
    get shown() {
      return shown
    },
    renewed: () => {
      try {
        const given = givenCertificate(settings)
        if (given === undefined || (given.cert === shown.cert && given.key === shown.key)) return undefined
        return (shown = given)
      } catch (error) {
        log.fault('certificate', error)
        return undefined
      }
    },
  }
}

/** What is wrong with the files that are set, a sentence each with the setting's name. Nothing, where none are. */
export const mistakesInTlsFiles = (settings: Files): readonly string[] => lookAtFiles(settings).mistakes

/** What clients will complain about, though the files can be used; also of a certificate that is long in use. */
export function staleCertificate(settings: Files, now: Date): string | undefined {
  const { given } = lookAtFiles(settings)
  if (given === undefined) return undefined
  const { validFromDate: from, validToDate: until } = new X509Certificate(given.cert)
  const path = settings.POSTHORN_TLS_CERT
  if (until <= now) return `POSTHORN_TLS_CERT: the certificate in ${path} ended on ${day(until)}: renew it.`
  if (from > now) return `POSTHORN_TLS_CERT: the certificate in ${path} is not valid before ${from.toISOString()}.`
  return undefined
}

const day = (at: Date): string => at.toISOString().slice(0, 10)

interface Looked {
  readonly given?: TlsCertificate
  readonly mistakes: readonly string[]
}

function lookAtFiles({ POSTHORN_TLS_CERT: certPath, POSTHORN_TLS_KEY: keyPath }: Files): Looked {
  if (certPath === undefined || keyPath === undefined) return { mistakes: [] }
  const mistakes: string[] = []
  const read = <T>(name: string, path: string, holds: string, parse: (pem: string) => T) => {
    let pem = ''
    try {
      pem = readFileSync(path, 'utf8')
      return { pem, parsed: parse(pem) }
    } catch (error) {
      mistakes.push(
        `${name} names ${path}, ${whyUnreadable(error as NodeJS.ErrnoException) ?? whyUnusable(pem, holds)}`,
      )
      return undefined
    }
  }
  const cert = read('POSTHORN_TLS_CERT', certPath, 'certificate', (pem) => new X509Certificate(pem))
  const key = read('POSTHORN_TLS_KEY', keyPath, 'private key', createPrivateKey)
  if (cert === undefined || key === undefined) return { mistakes }
  if (!cert.parsed.checkPrivateKey(key.parsed))
    return {
      mistakes: ["POSTHORN_TLS_KEY is not the key of POSTHORN_TLS_CERT, whose first certificate is the server's"],
    }
  const given = { cert: cert.pem, key: key.pem }
  try {
    createSecureContext(given)
  } catch (error) {
    return { mistakes: [`POSTHORN_TLS_CERT and POSTHORN_TLS_KEY cannot be used: ${(error as Error).message}`] }
  }
  return { given, mistakes }
}

function whyUnreadable({ code, syscall }: NodeJS.ErrnoException): string | undefined {
  if (code === 'ENOENT') return 'which does not exist'
  if (code === 'EACCES') return 'which this user may not read'
  return syscall === undefined ? undefined : `which cannot be read (${code})`
}

function whyUnusable(pem: string, holds: string): string {
  return /^(?:-----BEGIN |Proc-Type: .*)ENCRYPTED/m.test(pem)
    ? 'whose key is encrypted with a passphrase: it must be without one'
    : `which holds no ${holds} in PEM`
}

const keptFile = (folder: string): string => join(folder, 'smtp-tls.pem')

/** Until when the self-signed one is good; undefined where there is none. */
export function keptUntil({ POSTHORN_DATA_DIR: folder }: From): Date | undefined {
  const path = keptFile(folder)
  const kept = readIfThere(path)
  return kept === undefined ? undefined : new X509Certificate(parted(kept, path).cert).validToDate
}

/**
 * Made anew only out of its time, which is a clock that was wrong or ten years, and for another full name, that is one that somebody has set: machines
 * change their short ones by themselves (a container at every update, a laptop with its network), and clients that trust the certificate under
 * `localhost` would lose it.
 */
function keptCertificate({ POSTHORN_DATA_DIR: folder, POSTHORN_HOSTNAME: hostname }: From, now: Date): TlsCertificate {
  const path = keptFile(folder)
  const kept = readIfThere(path)
  if (kept !== undefined) {
    const both = parted(kept, path)
    const { validFromDate, validToDate } = new X509Certificate(both.cert)
    const isGood = validFromDate <= now && now < validToDate
    if (isGood && (!isFullName(hostname) || namesIn(both.cert).includes(hostname))) return both
  }
  const { key, cert } = selfSigned(hostname, now)
  makeFolders(folder, dataFolderMode())
  if (kept === undefined) makeDurably(path, key + cert)
  else replaceDurably(path, key + cert)
  return parted(readFileSync(path, 'utf8'), path)
}

const namesIn = (cert: string): readonly string[] =>
  (new X509Certificate(cert).subjectAltName ?? '')
    .split(', ')
    .filter((each) => each.startsWith('DNS:'))
    .map((each) => each.slice('DNS:'.length))

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function parted(pem: string, path: string): TlsCertificate {
  const at = pem.indexOf('-----BEGIN CERTIFICATE-----')
  const both = { key: pem.slice(0, at), cert: pem.slice(at) }
  try {
    if (new X509Certificate(both.cert).checkPrivateKey(createPrivateKey(both.key))) return both
  } catch {
    // one of the two is none
  }
  throw new Trouble(`${path} is damaged: delete it, and the next start makes a new certificate`)
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
  const names = [...new Set([hostname, 'localhost'])].map((each) => tagged(0x82, Buffer.from(each)))
  const addresses = ['127.0.0.1', '::1'].map((each) => tagged(0x87, octetsOf(each)))
  const extensions = sequence(
    sequence(oid('2.5.29.19'), tagged(0x01, Buffer.of(0xff)), tagged(0x04, sequence())), // no authority
    sequence(oid('2.5.29.17'), tagged(0x04, sequence(...names, ...addresses))),
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
