// The certificate of our own making is one for others too: OpenSSL reads it, a TLS client that trusts it connects by every name in it.
import { execFileSync } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect, createServer } from 'node:tls'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { keptUntil, mistakesInTlsFiles, selfSigned, staleCertificate, renewals, tlsCertificate } from './certificate.ts'
import { silentLog } from './log.ts'

const folder = temporaryFolder()

test('OpenSSL finds a version 3 server certificate that it can verify against itself', () => {
  const { cert } = selfSigned('mail.example.org', new Date())
  const file = join(folder, 'self.pem')
  writeFileSync(file, cert)
  expect(execFileSync('openssl', ['verify', '-CAfile', file, file]).toString()).toContain('OK')
  const text = execFileSync('openssl', ['x509', '-in', file, '-noout', '-text']).toString()
  expect(text).toMatch(/Version: 3 /)
  expect(text).toContain('DNS:mail.example.org, DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1')
  const ofThisMachine = new X509Certificate(selfSigned('localhost', new Date()).cert)
  expect(ofThisMachine.subjectAltName).toBe('DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1')
  expect(text).toMatch(/CA:FALSE/)
  expect(Date.parse(new X509Certificate(cert).validTo) - Date.now()).toBeGreaterThan(3_600 * 86_400_000)
})

test.each(['localhost', 'mail.example.org'])('a client that trusts it connects to %s', async (servername) => {
  const pair = selfSigned('mail.example.org', new Date())
  const server = createServer(pair).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const socket = connect({ host: '127.0.0.1', port, servername, ca: pair.cert })
  await once(socket, 'secureConnect')
  expect(socket.authorized).toBe(true)
  socket.destroy()
  server.close()
})

test('it is made once, kept for its owner alone, and found again', () => {
  const settings = {
    POSTHORN_DATA_DIR: join(folder, 'data'),
    POSTHORN_HOSTNAME: 'node.test',
    POSTHORN_TLS_CERT: undefined,
    POSTHORN_TLS_KEY: undefined,
  }
  const first = tlsCertificate(settings)
  expect(tlsCertificate(settings)).toEqual(first)
  const path = join(folder, 'data', 'smtp-tls.pem')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(readFileSync(path, 'utf8')).toBe(first.key + first.cert)
  for (const damaged of ['', first.cert, first.key + first.cert.slice(0, -60)]) {
    writeFileSync(path, damaged)
    expect(() => tlsCertificate(settings)).toThrow(
      `${path} is damaged: delete it, and the next start makes a new certificate`,
    )
  }
})

test.runIf(process.getuid?.() === 0)(
  'one that root has made belongs to whom the folder does, who shows it next',
  () => {
    const theirs = join(folder, 'theirs')
    mkdirSync(theirs)
    chownSync(theirs, 65_534, 65_534)
    tlsCertificate({
      POSTHORN_TLS_CERT: undefined,
      POSTHORN_TLS_KEY: undefined,
      POSTHORN_DATA_DIR: theirs,
      POSTHORN_HOSTNAME: 'localhost',
    })
    expect(statSync(join(theirs, 'smtp-tls.pem'))).toMatchObject({ uid: 65_534, gid: 65_534 })
  },
)

test('it is made anew for another full name that was set, and kept where the machine alone has changed its own', () => {
  const settings = (hostname: string) => ({
    POSTHORN_DATA_DIR: join(folder, 'renamed'),
    POSTHORN_HOSTNAME: hostname,
    POSTHORN_TLS_CERT: undefined,
    POSTHORN_TLS_KEY: undefined,
  })
  const first = tlsCertificate(settings('3f2a9c11d0e4'))
  for (const own of ['b71c00de42aa', 'laptop.local']) expect(tlsCertificate(settings(own))).toEqual(first)
  const named = tlsCertificate(settings('mail.example.org'))
  expect(new X509Certificate(named.cert).checkHost('mail.example.org')).toBe('mail.example.org')
  expect(tlsCertificate(settings('mail.example.org'))).toEqual(named)
  // A part of a name is another name.
  expect(new X509Certificate(tlsCertificate(settings('example.org')).cert).checkHost('example.org')).toBe('example.org')
  expect(statSync(join(folder, 'renamed', 'smtp-tls.pem')).mode & 0o777).toBe(0o600)
  expect(readdirSync(join(folder, 'renamed'))).toEqual(['smtp-tls.pem'])
})

test('it is made anew out of its time, after ten years or by a clock that was wrong when it was made', () => {
  const settings = {
    POSTHORN_DATA_DIR: join(folder, 'aged'),
    POSTHORN_HOSTNAME: 'node.test',
    POSTHORN_TLS_CERT: undefined,
    POSTHORN_TLS_KEY: undefined,
  }
  const at = (year: number) => tlsCertificate(settings, new Date(`${year}-06-01T00:00:00Z`))
  const first = at(1970)
  expect(keptUntil(settings)).toEqual(new Date('1980-05-29T00:00:00Z'))
  expect(at(1980 - 1)).toEqual(first)
  const second = at(2026)
  expect(new X509Certificate(second.cert).validToDate.getFullYear()).toBe(2036)
  expect(at(2036 - 1)).toEqual(second)
  // A clock that was ahead.
  expect(new X509Certificate(at(2025).cert).validToDate.getFullYear()).toBe(2035)
})

test('files that are set are used, and what is wrong with them is said by their names', () => {
  const [one, other] = [selfSigned('a.test', new Date()), selfSigned('b.test', new Date())]
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const settings = (cert: string, key: string) => ({
    POSTHORN_DATA_DIR: folder,
    POSTHORN_HOSTNAME: 'x',
    POSTHORN_TLS_CERT: cert,
    POSTHORN_TLS_KEY: key,
  })
  const cert = file('cert.pem', one.cert)
  expect(tlsCertificate(settings(cert, file('key.pem', one.key)))).toEqual(one)
  expect(() => tlsCertificate(settings(cert, file('other.pem', other.key)))).toThrow(/POSTHORN_TLS_KEY is not the key/)
  const key = join(folder, 'key.pem')
  const encrypted = createPrivateKey(one.key).export({
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: 'x',
  })
  for (const [certPath, keyPath, mistakes] of [
    [cert, key, []],
    [cert, join(folder, 'none'), [`POSTHORN_TLS_KEY names ${folder}/none, which does not exist`]],
    [folder, key, [`POSTHORN_TLS_CERT names ${folder}, which cannot be read (EISDIR)`]],
    [
      file('bad.pem', 'x'),
      file('locked.pem', encrypted as string),
      [
        `POSTHORN_TLS_CERT names ${folder}/bad.pem, which holds no certificate in PEM`,
        `POSTHORN_TLS_KEY names ${folder}/locked.pem, whose key is encrypted with a passphrase: it must be without one`,
      ],
    ],
    [cert, cert, [`POSTHORN_TLS_KEY names ${cert}, which holds no private key in PEM`]],
  ] as const) {
    const given = settings(certPath, keyPath)
    expect(mistakesInTlsFiles(given)).toEqual(mistakes)
    if (mistakes.length > 0) expect(() => tlsCertificate(given)).toThrow(mistakes.join('; '))
  }
})

test('a certificate out of its time can be used, and is told by the name of its setting', () => {
  const years = (n: number) => new Date(Date.now() + n * 365 * 86_400_000)
  for (const [made, words] of [
    [new Date(), undefined],
    [years(-11), /^POSTHORN_TLS_CERT: the certificate in .*stale\.pem ended on \d{4}-\d\d-\d\d: renew it\.$/],
    [years(1), /^POSTHORN_TLS_CERT: the certificate in .*stale\.pem is not valid before /],
  ] as const) {
    const pair = selfSigned('a.test', made)
    const files = { POSTHORN_TLS_CERT: join(folder, 'stale.pem'), POSTHORN_TLS_KEY: join(folder, 'stale.key') }
    writeFileSync(files.POSTHORN_TLS_CERT, pair.cert)
    writeFileSync(files.POSTHORN_TLS_KEY, pair.key)
    expect(mistakesInTlsFiles(files)).toEqual([])
    if (words === undefined) expect(staleCertificate(files, new Date())).toBeUndefined()
    else expect(staleCertificate(files, new Date())).toMatch(words)
  }
})

test('renewed files are told once; half a renewal changes nothing, and is a fault', () => {
  const [one, other] = [selfSigned('a.test', new Date()), selfSigned('a.test', new Date())]
  const files = { POSTHORN_TLS_CERT: join(folder, 'renewed.pem'), POSTHORN_TLS_KEY: join(folder, 'renewed.key') }
  const put = (cert: string, key: string) => {
    writeFileSync(files.POSTHORN_TLS_CERT, cert)
    writeFileSync(files.POSTHORN_TLS_KEY, key)
  }
  const faults: string[] = []
  put(one.cert, one.key)
  const { renewed } = renewals(files, one, { ...silentLog, fault: (_, error) => void faults.push(String(error)) })
  expect(renewed()).toBeUndefined()
  put(other.cert, one.key)
  expect(renewed()).toBeUndefined()
  rmSync(files.POSTHORN_TLS_CERT)
  expect(renewed()).toBeUndefined()
  expect(faults).toEqual([
    expect.stringContaining('POSTHORN_TLS_KEY is not the key'),
    expect.stringContaining('which does not exist'),
  ])
  put(other.cert, other.key)
  expect(renewed()).toEqual(other)
  expect(renewed()).toBeUndefined()
})
