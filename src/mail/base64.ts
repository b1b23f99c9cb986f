// Standard Base64 (RFC 4648 section 4), strictly: no URL-safe alphabet, no white space, exact padding, zero trailing bits
// (decisions D). Node's decoder forgives all of these; what it forgives is found again by cheap checks around it.

/** How many bytes the text decodes to; for a text that is not Base64, a bound that no decoding exceeds. */
export function base64DecodedLength(text: string): number {
  return Math.floor(((text.length - paddingOf(text)) * 3) / 4)
}

/** The bytes, or undefined where the text is not Base64 to the letter. The empty string is an empty file. */
export function decodeBase64(text: string): Buffer | undefined {
  if (text.length % 4 !== 0) return undefined
  // The decoder takes `-` and `_` for 62 and 63, and cuts wide characters to their low octet: U+0141 would pass as `A`.
  if (text.includes('-') || text.includes('_') || Buffer.byteLength(text) !== text.length) return undefined
  if (!hasZeroTrailingBits(text)) return undefined
  const bytes = Buffer.from(text, 'base64')
  // Every other character is skipped by the decoder, and an early `=` ends it. Each loses at least one sextet of a text whose length
  // is a multiple of four, and one sextet less is always at least one octet less: so the length alone proves that none was there.
  return bytes.length === base64DecodedLength(text) ? bytes : undefined
}

function paddingOf(text: string): 0 | 1 | 2 {
  if (!text.endsWith('=')) return 0
  return text.endsWith('==') ? 2 : 1
}

/** RFC 4648 3.5: of the last character only 2 bits (before `==`) or 4 bits (before `=`) are data. */
function hasZeroTrailingBits(text: string): boolean {
  switch (paddingOf(text)) {
    case 0:
      return true
    case 1:
      return 'AEIMQUYcgkosw048'.includes(text.charAt(text.length - 2))
    case 2:
      return 'AQgw'.includes(text.charAt(text.length - 3))
  }
}
