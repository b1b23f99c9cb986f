// The package has no types of its own, and those of `punycode` speak of Node's module.
declare module 'punycode.js' {
  /** Of a domain or an address. Throws a RangeError where a label is no Punycode (RFC 3492). */
  export function toUnicode(name: string): string
}
