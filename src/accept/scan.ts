// The malware scan that every attachment passes before acceptance (specification 1.5). A port: whoever implements it answers clean or
// infected, or throws, and then nothing is accepted: it fails closed. The built-in check knows one signature, the EICAR test file,
// and says so; a real engine takes its place through POSTHORN_CLAMD.
import type { Attachment } from '../domain/submission.ts'

export type Verdict =
  | { readonly clean: true }
  | { readonly clean: false; readonly position: number; readonly signature: string }

export interface Scanner {
  /** Shown at the start, so that nobody takes the built-in check for an engine. */
  readonly description: string
  examine(attachments: readonly Attachment[]): Promise<Verdict>
}

/** The EICAR test file, in two halves so that this file is not one. */
const eicar = Buffer.from(
  ['X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-', 'ANTIVIRUS-TEST-FILE!$H+H*'].join(''),
  'latin1',
)

export const builtInScanner: Scanner = {
  description: 'built-in check (EICAR test file only, no signature engine)',
  examine: (attachments) => {
    const position = attachments.findIndex((attachment) => attachment.bytes.includes(eicar))
    return Promise.resolve(
      position < 0 ? { clean: true } : { clean: false, position, signature: 'Eicar-Test-Signature' },
    )
  },
}

/** For an installation that asked for an engine which this release cannot speak to yet: no attachment is accepted. */
export const absentScanner: Scanner = {
  description: 'POSTHORN_CLAMD is set, but this release has no clamd client yet: attachments are refused with 503',
  examine: () => Promise.reject(new Error('no client for POSTHORN_CLAMD')),
}
