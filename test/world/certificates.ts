// Certificates for the tests' world: a certificate authority of our own and what it signs, made with the `openssl` of the
// machine once per process, in a temporary folder that goes away with it, or with the test run: a worker may be ended without a word.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Certificate {
  /** PEM. */
  readonly key: string
  readonly cert: string
  readonly keyFile: string
  readonly certFile: string
  /** The authority, for whoever is to trust the certificate. */
  readonly ca: string
}

let folder: string | undefined
const made = new Map<string, Certificate>()

/** A certificate for these names and addresses, signed by the tests' own authority. */
export function certificateFor(...names: readonly string[]): Certificate {
  const wanted = names.length === 0 ? ['localhost', '127.0.0.1', '::1'] : names
  const known = made.get(wanted.join())
  if (known !== undefined) return known
  const certificate = make(wanted)
  made.set(wanted.join(), certificate)
  return certificate
}

function make(names: readonly string[]): Certificate {
  const home = authority()
  const file = (ending: string) => join(home, `leaf-${made.size}.${ending}`)
  const alternatives = names.map((name) => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`).join(',')
  writeFileSync(file('ext'), `subjectAltName=${alternatives}\nbasicConstraints=critical,CA:FALSE\n`)
  openssl(home, ['req', '-new', ...newKey, '-keyout', file('key'), '-subj', `/CN=${names[0]}`, '-out', file('csr')])
  const signed = ['-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '30', '-extfile', file('ext')]
  openssl(home, ['x509', '-req', '-in', file('csr'), ...signed, '-out', file('crt')])
  return {
    key: readFileSync(file('key'), 'utf8'),
    cert: readFileSync(file('crt'), 'utf8'),
    keyFile: file('key'),
    certFile: file('crt'),
    ca: readFileSync(join(home, 'ca.crt'), 'utf8'),
  }
}

// Elliptic curves: an RSA key takes a noticeable part of a second.
const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

function authority(): string {
  if (folder !== undefined) return folder
  const home = mkdtempSync(join(process.env['TEST_RUN_FOLDER'] ?? tmpdir(), 'posthorn-certificates-'))
  process.once('exit', () => rmSync(home, { recursive: true, force: true }))
  const subject = ['-subj', '/CN=Posthorn test authority', '-days', '30']
  openssl(home, ['req', '-x509', ...newKey, '-keyout', 'ca.key', ...subject, '-out', 'ca.crt'])
  folder = home
  return home
}

function openssl(folder: string, args: readonly string[]): void {
  execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
}
