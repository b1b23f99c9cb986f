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

/** Who signs: a certificate, and the key that stands behind it. */
type Signer = Pick<Certificate, 'certFile' | 'keyFile'>

/** Another authority that bears the name of the tests' own. */
export function namesake(): Signer {
  const home = authority()
  const [certFile, keyFile] = [join(home, 'namesake.crt'), join(home, 'namesake.key')]
  const files = ['-keyout', keyFile, '-out', certFile]
  openssl(home, ['req', '-x509', ...newKey, ...files, '-subj', authorityName, '-days', '30'])
  return { certFile, keyFile }
}

/** Signed by whom it says, whether that one may sign or not. It names no key of its signer, as no forger would: the signature alone tells. */
export function certificateBy(by: Signer | 'authority', name: string, isAuthority = false, days = 30): Certificate {
  const extensions = `basicConstraints=critical,CA:${isAuthority ? 'TRUE' : 'FALSE'}\nauthorityKeyIdentifier=none`
  const certificate = make([name], { ...(by !== 'authority' && { by }), days, extensions })
  made.set(certificate.certFile, certificate)
  return certificate
}

function make(
  names: readonly string[],
  {
    by,
    days = 30,
    extensions = 'basicConstraints=critical,CA:FALSE',
  }: { by?: Signer; days?: number; extensions?: string } = {},
): Certificate {
  const home = authority()
  const file = (ending: string) => join(home, `leaf-${made.size}.${ending}`)
  const alternatives = names.map((name) => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`).join(',')
  writeFileSync(file('ext'), `subjectAltName=${alternatives}\n${extensions}\n`)
  openssl(home, ['req', '-new', ...newKey, '-keyout', file('key'), '-subj', `/CN=${names[0]}`, '-out', file('csr')])
  const signer = ['-CA', by?.certFile ?? 'ca.crt', '-CAkey', by?.keyFile ?? 'ca.key', '-CAcreateserial']
  const signed = [...signer, '-days', String(days), '-extfile', file('ext')]
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

const authorityName = '/CN=Posthorn test authority'

function authority(): string {
  if (folder !== undefined) return folder
  const home = mkdtempSync(join(process.env['TEST_RUN_FOLDER'] ?? tmpdir(), 'posthorn-certificates-'))
  process.once('exit', () => rmSync(home, { recursive: true, force: true }))
  const subject = ['-subj', authorityName, '-days', '30']
  openssl(home, ['req', '-x509', ...newKey, '-keyout', 'ca.key', ...subject, '-out', 'ca.crt'])
  folder = home
  return home
}

function openssl(folder: string, args: readonly string[]): void {
  execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
}
