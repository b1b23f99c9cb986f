// From the scanner's verdict to what acceptance needs, on both ways in: what was found clean, or a refusal that names the file, the reason and the
// way out (decisions I). Over SMTP the file is the whole message, `message/rfc822`, which has no field.
import type { Log } from '../base/log.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { refuse, type Refusal } from '../domain/refusal.ts'
import type { Scanner, ScanFile, Verdict } from './scan.ts'

export async function scanned(
  { scanner, log }: { readonly scanner: Scanner; readonly log: Log },
  files: readonly ScanFile[],
  fieldOf: (position: number) => string | undefined,
  workspace: WorkspaceId,
): Promise<Extract<Verdict, { kind: 'clean' }> | Refusal> {
  const verdict = await scanner.scan(files, workspace)
  if (verdict.kind === 'clean') return verdict
  if (verdict.kind === 'unavailable') log.fault('scanner', new Error(verdict.reason))
  return scanRefusal(verdict, files, fieldOf)
}

function scanRefusal(
  verdict: Exclude<Verdict, { kind: 'clean' }>,
  files: readonly ScanFile[],
  fieldOf: (position: number) => string | undefined,
): Refusal {
  if (verdict.kind === 'unavailable')
    return refuse(
      'scanner_unavailable',
      'The malware scanner cannot answer at this moment; nothing was accepted. Try again later.',
      { retryAfterSeconds: limits.scannerAgainSeconds },
    )
  if (verdict.kind === 'overfull') return overfull(verdict.count)
  const field = fieldOf(verdict.position)
  const filename = files[verdict.position]?.filename ?? ''
  const name = field === undefined ? `"${filename}"` : `"${field}" (${filename})`
  const words =
    verdict.kind === 'infected'
      ? `${name} contains malware (${verdict.signature}); nothing was accepted. Remove it.`
      : `${name} cannot be examined for malware: it ${verdict.why}; nothing was accepted. Send its content in another form.`
  return refuse('attachment_infected', words, field === undefined ? {} : { field })
}

function overfull(count: number): Refusal {
  return count > limits.attachmentsMax
    ? refuse(
        'too_many_attachments',
        `This mail has ${count} attachments; send at most ${limits.attachmentsMax} with one message.`,
      )
    : refuse(
        'attachments_too_large',
        'The attachments of this mail are larger than 20 MB (20,971,520 bytes) together, decoded; send fewer or smaller files.',
      )
}
