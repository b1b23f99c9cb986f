// Base64 and quoted-printable as forgiving readers undo them, for the malware scan: whatever does not belong is passed over.

const lineFeed = 0x0a
const equals = 0x3d
const dash = 0x2d
const underscore = 0x5f

/** The values of the alphabet; -1 for any other octet. */
export const sextets = new Int8Array(256).fill(-1)
for (const [value, char] of Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/').entries())
  sextets[char] = value

const urlSafe = sextets.slice()
urlSafe[dash] = 62
urlSafe[underscore] = 63

/**
 * Skips what is no Base64; after padding it goes on, as some readers do. Readers differ in two things, and where they come up each way is
 * taken: to some a padding that completes nothing is junk like any other, and one that does is the end; and some know the alphabet for URLs.
 */
export function base64Readings(text: Buffer): Buffer[] {
  const readings = [lenientBase64(text, sextets, true)]
  const padding = text.indexOf(equals)
  if (padding >= 0 && text.subarray(padding).some((byte) => (sextets[byte] as number) >= 0))
    readings.push(lenientBase64(text, sextets, false))
  if (text.includes(dash) || text.includes(underscore)) readings.push(lenientBase64(text, urlSafe, true))
  return readings
}

function lenientBase64(text: Buffer, values: Int8Array, paddingCounts: boolean): Buffer {
  const decoded = Buffer.allocUnsafe(Math.ceil((text.length * 3) / 4) + 3)
  let filled = 0
  let bits = 0
  let held = 0
  let padded = 0
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] as number
    const sextet = values[byte] as number
    if (sextet < 0) {
      if (byte !== equals) continue
      if (paddingCounts) held = 0
      else if (held === 2 || (held === 4 && ++padded === 2)) break
      continue
    }
    padded = 0
    bits = ((bits << 6) | sextet) & 0xff_ffff
    held += 6
    if (held >= 8) {
      held -= 8
      decoded[filled++] = (bits >> held) & 0xff
    }
  }
  return decoded.subarray(0, filled)
}

/** Some readers take the soft breaks out before they look for codes: where one stands in the middle of a code, it is read both ways. */
export function quotedPrintableReadings(text: Buffer): Buffer[] {
  const characters = text.toString('latin1')
  const readings = [quotedPrintable(text)]
  if (brokenCode.test(characters))
    readings.push(quotedPrintable(Buffer.from(characters.replace(/=[ \t]{0,998}\r?\n/g, ''), 'latin1')))
  return readings
}
const brokenCode = /=[0-9a-f]?=[ \t]{0,998}\r?\n/i

/** RFC 2045 6.7, forgiving: what is no code stays as it is. */
function quotedPrintable(text: Buffer): Buffer {
  const decoded = Buffer.allocUnsafe(text.length)
  let filled = 0
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] as number
    if (byte !== equals) {
      decoded[filled++] = byte
      continue
    }
    const high = hexValue(text[at + 1])
    const low = hexValue(text[at + 2])
    if (high >= 0 && low >= 0) {
      decoded[filled++] = high * 16 + low
      at += 2
      continue
    }
    let next = at + 1
    while (text[next] === 0x20 || text[next] === 0x09 || text[next] === 0x0d) next++
    if (text[next] === lineFeed) at = next
    else decoded[filled++] = byte
  }
  return decoded.subarray(0, filled)
}

function hexValue(byte: number | undefined): number {
  if (byte === undefined) return -1
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}
