// What the doctor looks at on this machine: the certificate, the data folder, the disk, the installation key.
import { randomBytes, X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { open, readFile, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { limits, type Settings } from '../config.ts'
import { codeOf, whyNotWritten } from '../base/data-folder.ts'
import { keptUntil, mistakesInTlsFiles } from '../base/certificate.ts'
import { installationKeys } from '../base/installation-key.ts'
import { disksOf, existingClusterElsewhere, type Disk } from '../embedded/embedded.ts'
import { fail, ok, skipped, warn, type Finding } from './finding.ts'

export async function checkCertificate(settings: Settings, now: Date): Promise<Finding> {
  const { POSTHORN_TLS_CERT: certPath, POSTHORN_TLS_KEY: keyPath, POSTHORN_HOSTNAME: hostname } = settings
  const { POSTHORN_ROLES: roles } = settings
  // Bounces are taken in clear text where no files are set: a self-signed one would help nobody (roles/feedback.ts).
  if (!roles.includes('smtp') && (!roles.includes('feedback') || certPath === undefined))
    return skipped('This node shows no certificate over SMTP.')
  if (certPath === undefined || keyPath === undefined)
    return warn(
      `SMTP submission shows a self-signed certificate, which programs refuse unless they are told to trust it. Set POSTHORN_TLS_CERT and POSTHORN_TLS_KEY.${endOfKept(settings, now)}`,
    )
  const mistakes = mistakesInTlsFiles(settings)
  if (mistakes.length > 0)
    return fail(`${mistakes.join('; ')}. The certificate that was read last stays in use, and the next start fails.`)
  const certificate = new X509Certificate(await readFile(certPath))
  const until = new Date(certificate.validTo)
  const days = Math.floor((until.getTime() - now.getTime()) / 86_400_000)
  if (until <= now) return fail(`The certificate ended on ${until.toISOString()}: renew it.`)
  if (new Date(certificate.validFrom) > now)
    return fail(`The certificate is not valid before ${certificate.validFrom}.`)
  if (certificate.checkHost(hostname) === undefined)
    return fail(
      `The certificate is for ${certificate.subjectAltName ?? certificate.subject}, not for POSTHORN_HOSTNAME ${hostname}.`,
    )
  return days < limits.doctorCertificateDays
    ? warn(`The certificate of ${hostname} ends in ${days} days: renew it.`)
    : ok(`The certificate of ${hostname} is valid until ${until.toISOString().slice(0, 10)}.`)
}

/** Of the self-signed one, when its ten years are nearly over. A data folder that cannot be read has a finding of its own. */
function endOfKept(settings: Settings, now: Date): string {
  let until: Date | undefined
  try {
    until = keptUntil(settings)
  } catch {
    return ''
  }
  const soon = now.getTime() + limits.doctorCertificateDays * 86_400_000
  if (until === undefined || until.getTime() > soon) return ''
  return ` It is good until ${until.toISOString().slice(0, 10)}: the first start after that makes another, which whoever trusts this one must be given.`
}

/** Kinds of file systems that forget (statfs(2)). */
const tmpfs = 0x01021994
const ramfs = 0x858458f6
const overlay = 0x794c7630

export async function checkDataFolder({ POSTHORN_DATA_DIR: folder, DATABASE_URL: url }: Settings): Promise<Finding> {
  // A new one by all means: root looks into folders of others, where something of that name may lead elsewhere.
  const probe = join(folder, `.doctor-${process.pid}-${randomBytes(4).toString('hex')}`)
  try {
    const file = await open(probe, 'wx', 0o600)
    try {
      await file.write('posthorn doctor')
      await file.sync()
    } finally {
      await file.close()
    }
  } catch (error) {
    if (codeOf(error) === 'ENOENT')
      return fail(`${folder} cannot be written: it is not there. ${notThere} It holds ${holds(url)}.`)
    return fail(`${folder} cannot be written (${codeOf(error)}): ${whyNotWritten(error)}. It holds ${holds(url)}.`)
  } finally {
    await rm(probe, { force: true }).catch(() => undefined)
  }
  const forgotten = await whyForgotten(folder, holds(url))
  if (forgotten !== undefined) return forgotten
  const elsewhere = url === undefined ? existingClusterElsewhere(folder) : undefined
  const lost = elsewhere === undefined ? undefined : await whyForgotten(elsewhere, `the database of ${folder}`)
  return lost ?? ok(`${folder} can be written.`)
}

/** Undefined for a folder that stays. */
async function whyForgotten(folder: string, what: string): Promise<Finding | undefined> {
  const { type } = await statfs(folder)
  if (type === tmpfs || type === ramfs)
    return fail(`${folder} lies in memory and is lost at the next restart of the machine. It holds ${what}.`)
  if (type === overlay)
    return warn(
      `${folder} lies in the container's own layer and goes with the container: mount a volume. It holds ${what}.`,
    )
  return undefined
}

/** Mostly the command has other settings than the service. */
const notThere =
  'If a service runs here, give the doctor its settings, POSTHORN_DATA_DIR above all; else the first start makes it.'

const holds = (databaseUrl: string | undefined): string =>
  databaseUrl === undefined
    ? 'the database and the installation key'
    : 'the mark by which a restored database is noticed, and replies that the database has not heard yet'

export async function checkDisk({ POSTHORN_DATA_DIR: folder, DATABASE_URL: url }: Settings): Promise<Finding> {
  if (!existsSync(folder)) return skipped(`${folder} is not there: see data_folder.`)
  const found = (await disksOf(folder, url === undefined)).map((disk) => judgeDisk(disk, url === undefined))
  const worst = found.find(({ status }) => status === 'fail') ?? found.find(({ status }) => status === 'warn')
  return worst ?? ok(found.map(({ detail }) => detail).join(' '))
}

/** What fills it, and what stands still then: of a database server of your own, only this node's marks and replies lie here. */
export function judgeDisk({ folder, freeBytes, bytes }: Disk, isEmbedded: boolean): Finding {
  const share = bytes === 0 ? 0 : freeBytes / bytes
  const said = `${(freeBytes / 1e9).toFixed(1)} GB (${Math.floor(share * 100)} %) free for ${folder}`
  const where = isEmbedded ? '' : ' The disk of the database server of your own is not seen from here.'
  if (freeBytes < limits.diskFreeBytesMin)
    return fail(
      isEmbedded
        ? `${said}. When the disk is full nothing is accepted any more: make room, or keep things for a shorter time (POSTHORN_KEEP_...).`
        : `${said}. When the disk is full this node delivers nothing any more: make room.${where}`,
    )
  if (freeBytes < limits.diskFreeBytesLow || share < limits.diskFreeShareLow)
    return warn(
      `${said}. Make room${isEmbedded ? ', or keep things for a shorter time (POSTHORN_KEEP_...)' : ''}.${where}`,
    )
  return ok(`${said}.${where}`)
}

export function checkMemory(bytes: number): Finding {
  const said = `${(bytes / 1e9).toFixed(1)} GB`
  return bytes < limits.doctorMemoryBytesLow
    ? warn(
        `${said} of memory: enough for small mail, but large mail is often told to come again (503, or 451), or waits, and the kernel may end the service at it. Accepted mail is kept; give it 1 GB, 2 where much is sent.`,
      )
    : ok(`${said}.`)
}

export async function checkKey(settings: Settings): Promise<Finding> {
  const { POSTHORN_SECRET_KEY: key, POSTHORN_DATA_DIR: folder } = settings
  const file = join(folder, 'secret-key')
  // To look is not to make one.
  if (key === undefined && !existsSync(file)) return warn(`There is none in ${folder} yet: the first start makes it.`)
  const keys = installationKeys(settings).all()
  if (key === undefined && (await isForAll(folder, file)))
    return warn(
      `Whoever is logged in on this machine can read or replace ${file}, which opens all stored secrets: chmod 600 ${file}; and if somebody may have read it, posthorn rotate-key.`,
    )
  return keys.length > 1
    ? warn(
        'The installation key is being rotated, and the old one still opens: posthorn rotate-key, and then with --finish.',
      )
    : ok(
        'There is one. Keep a copy of it apart from the backups: without it nothing starts, and none of them can be used.',
      )
}

/** We make it for its owner alone; what is copied back from a backup is often for everybody, and as root the folder lets everybody pass. */
async function isForAll(folder: string, file: string): Promise<boolean> {
  const [above, own] = await Promise.all([stat(folder), stat(file)])
  return (above.mode & 0o001) !== 0 && (own.mode & 0o006) !== 0
}
