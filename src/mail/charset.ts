// Octets that claim a charset become text. Total: an unknown or wrong charset gives text too, never an error.

import { TextDecoder } from 'node:util'

const utf8 = new TextDecoder('utf-8', { fatal: true })
const windows1252 = new TextDecoder('windows-1252')
/** Labels whose mail is as often UTF-8 as what they say. */
const says =
  /^(?:|us-ascii|ascii|ansi_x3\.4-1968|unknown|unknown-8bit|x-unknown|utf-?8|unicode-1-1-utf-8|default|none)$/
const decodersMax = 64
const decoders = new Map<string, TextDecoder | undefined>()

export function decodeCharset(bytes: Buffer, charset: string | undefined): string {
  const label = (charset ?? '').trim().toLowerCase()
  const decoder = says.test(label) ? undefined : decoderOf(label)
  return decoder === undefined ? utf8OrWindows1252(bytes) : decoder.decode(bytes)
}

/** What it is, where nobody says it: whatever reads as UTF-8 was meant so. */
export function utf8OrWindows1252(bytes: Buffer): string {
  try {
    return utf8.decode(bytes)
  } catch {
    // Not UTF-8: not a fault, the answer.
    return windows1252.decode(bytes)
  }
}

function decoderOf(label: string): TextDecoder | undefined {
  if (decoders.has(label)) return decoders.get(label)
  let decoder: TextDecoder | undefined
  try {
    decoder = new TextDecoder(label)
  } catch {
    decoder = undefined
  }
  // Labels are a stranger's choice; so few are real that the memory need not be fair.
  if (decoders.size < decodersMax) decoders.set(label, decoder)
  return decoder
}
