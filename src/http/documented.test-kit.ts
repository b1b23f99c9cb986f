// Holds answers against the OpenAPI document: the status must be documented, every header that the document has a name for must be among those of
// that answer, the body must fit its schema and have no member that it does not name, and a member without a value is left out. The judge of the
// schemas is Ajv, which the service does not use.
import { Ajv2020 } from 'ajv/dist/2020.js'
import { fullFormats } from 'ajv-formats/dist/formats.js'
import { openapiJson } from '../contract/openapi.ts'
import { responseHeaders } from '../contract/operation.ts'

interface Documented {
  readonly headers?: Readonly<Record<string, object>>
  readonly content?: Readonly<Record<string, object>>
}
interface Document {
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { readonly responses: Readonly<Record<string, Documented>> }>>>
  >
}
interface Answered {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
}

/**
 * Answers are open to callers, who must bear more members in a later release, and some say so themselves; a member that nobody has written down is a column
 * that nobody meant to show.
 */
const closed = (_name: string, value: unknown): unknown => {
  if (typeof value !== 'object' || value === null || !('properties' in value) || !('type' in value)) return value
  const saysOpen = 'additionalProperties' in value && value.additionalProperties === true
  // Where no member has a name at all, anything may stand.
  const isNamed = Object.keys(value.properties as object).length > 0
  return { additionalProperties: false, ...value, ...(saysOpen && isNamed && { additionalProperties: false }) }
}
const document = JSON.parse(openapiJson(), closed) as Document
const ajv = new Ajv2020({ strict: false, formats: fullFormats })
ajv.addSchema(document, 'document')
const paths = Object.keys(document.paths).map((path) => ({
  path,
  pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
}))

/** Throws where the document does not describe this answer. Addresses that are not in it are let pass. */
export function judgeDocumented(method: string, url: string, answer: Answered): void {
  const bare = url.split('?')[0] ?? ''
  // A path without braces is meant before one with them.
  const found = paths.find(({ path }) => path === bare)?.path ?? paths.find(({ pattern }) => pattern.test(bare))?.path
  const responses = found === undefined ? undefined : document.paths[found]?.[method.toLowerCase()]?.responses
  if (found === undefined || responses === undefined) return
  const name = `${method} ${found} ${answer.statusCode}`
  const documented = responses[answer.statusCode]
  if (documented === undefined) throw new Error(`${name} is not documented: ${answer.body}`)
  for (const header of Object.keys(responseHeaders))
    if (answer.headers[header.toLowerCase()] !== undefined && documented.headers?.[header] === undefined)
      throw new Error(`${name} has the header ${header}, which is not documented`)
  if (documented.content?.['application/json'] === undefined) return
  const place = ['paths', found, method.toLowerCase(), 'responses', String(answer.statusCode), 'content']
  const pointer = [...place, 'application/json', 'schema'].map((part) => encodeURIComponent(part.replaceAll('/', '~1')))
  const fits = ajv.getSchema(`document#/${pointer.join('/')}`)
  if (fits === undefined) throw new Error(`${name} has no schema`)
  if (!(fits(JSON.parse(answer.body)) as boolean))
    throw new Error(`${name} does not fit the document: ${ajv.errorsText(fits.errors)}: ${answer.body}`)
  const empty = emptyMember(JSON.parse(answer.body))
  if (empty !== undefined) throw new Error(`${name} has null in ${empty}: ${answer.body}`)
}

/** Where null stands and should not: the limits of a plan alone have it, as "no limit". */
function emptyMember(value: unknown, path = ''): string | undefined {
  if (value === null) return /\.(hourly|daily|monthly)$/.test(path) ? undefined : path
  if (typeof value !== 'object') return undefined
  for (const [key, member] of Object.entries(value)) {
    const found = emptyMember(member, `${path}.${key}`)
    if (found !== undefined) return found
  }
  return undefined
}
