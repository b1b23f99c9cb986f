// What an id looks like, wherever somebody gives one: a UUID (RFC 9562) of any version and variant.
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export function isUuid(text: string): boolean {
  return uuid.test(text)
}

/** In lower case, as the database has it; undefined where it is none. */
export function parseUuid(text: string): string | undefined {
  return isUuid(text) ? text.toLowerCase() : undefined
}
