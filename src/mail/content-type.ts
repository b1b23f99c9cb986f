// The media type of an attachment (RFC 2045 5.1): `type/subtype` with optional parameters, safe to stand in a header field as it is.
// Composite types are refused (decisions D): what an attachment contains must not become part of the message's own structure; and so are
// ranges such as `*/*`, which name no type (RFC 9110 12.5.1).
import { limits } from '../config.ts'

const token = "[A-Za-z0-9!#$%&'*+.^_`{|}~-]+"
const quoted = '"(?:[ !#-\\[\\]-~]|\\\\[ -~])*"'
const mediaType = new RegExp(`^(${token})/(${token})(?:[ \\t]*;[ \\t]*${token}=(?:${token}|${quoted}))*$`)

export function isContentType(text: string): boolean {
  if (text.length > limits.contentTypeCharactersMax) return false
  const [, type = '', subtype] = mediaType.exec(text) ?? []
  return subtype !== undefined && subtype !== '*' && !/^(?:\*|multipart|message)$/i.test(type)
}

const parameter = new RegExp(`[ \\t]*;[ \\t]*(${token})=(?:${token}|${quoted})`, 'g')
const fileName = /^name(?:\*\d{0,2}\*?)?$/i

/** A media type without `name` (RFC 2045; RFC 2231 has it in pieces): an attachment has one file name, and readers differ in which of two they show. */
export const withoutFileName = (mediaType: string): string =>
  mediaType.replace(parameter, (whole: string, name: string) => (fileName.test(name) ? '' : whole))
