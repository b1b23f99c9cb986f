// What the SPF records of a name say, in plain words (RFC 7208). Whether an address passes is the receivers' business: here only what is
// surely wrong, or surely not meant, is found.

export const isSpf = (text: string): boolean => /^v=spf1(?: |$)/i.test(text)

/** Terms that ask the DNS; a record that needs more than ten of them fails everywhere (RFC 7208 4.6.4). */
const asks = /^[+\-~?]?(?:include:|a(?:[:/]|$)|mx(?:[:/]|$)|ptr(?::|$)|exists:)|^redirect=/i
const asksMax = 10

/** Undefined: nothing is wrong. */
export function whyBadSpf(texts: readonly string[]): string | undefined {
  const records = texts.filter(isSpf)
  if (records.length === 0) return undefined
  if (records.length > 1)
    return 'Two SPF records stand at this name, and receivers take that as an error (RFC 7208 4.5): merge them into one.'
  const terms = (records[0] as string).trim().split(/\s+/).slice(1)
  const all = terms.findIndex((term) => /^[+\-~?]?all$/i.test(term))
  if (/^\+?all$/i.test(terms[all] ?? ''))
    return 'The SPF record ends with +all: it allows everybody to send in this name.'
  if (all !== -1 && terms.slice(all + 1).some((term) => !term.includes('=')))
    return 'In the SPF record, what stands behind "all" is never looked at: move it before.'
  // Beside "all" a redirect is passed over (6.1).
  const isAsked = (term: string): boolean => asks.test(term) && (all === -1 || !/^redirect=/i.test(term))
  if (terms.filter(isAsked).length > asksMax)
    return `The SPF record asks the DNS more than ${asksMax} times, and receivers take that as an error (RFC 7208 4.6.4).`
  if (terms.some((term) => /^[+\-~?]?ptr(?::|$)/i.test(term)))
    return 'The SPF record uses "ptr", which receivers are told not to use (RFC 7208 5.5).'
  return undefined
}

/** Whether the record says anything that could allow a host of ours: any name, its own too, may lead to our address. */
export function mayAllow(texts: readonly string[]): boolean {
  const record = texts.find(isSpf) ?? ''
  return record
    .split(/\s+/)
    .some((term) => /^\+?(?:(?:mx|a)(?:[:/]|$)|ip[46]:|include:|exists:)|^redirect=/i.test(term))
}
