// What the caller is told when a file is not let in: which one, why, and the way out (decisions I).
import { limits } from '../config.ts'
import { refuse, type Refusal } from '../domain/refusal.ts'
import type { ScanFile, Verdict } from './scan.ts'

export function scanRefusal(
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
  const field = fieldOf(verdict.position)
  const filename = files[verdict.position]?.filename ?? ''
  const name = field === undefined ? `"${filename}"` : `"${field}" (${filename})`
  const words =
    verdict.kind === 'infected'
      ? `${name} contains malware (${verdict.signature}); nothing was accepted. Remove it.`
      : `${name} cannot be examined for malware: it ${verdict.why}; nothing was accepted. Send its content in another form.`
  return refuse('attachment_infected', words, field === undefined ? {} : { field })
}
