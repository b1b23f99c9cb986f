// One addr-spec (RFC 5321 4.1.2, RFC 6531), parsed strictly: no display name, no comments, no quoted local part, no literal.

export interface EmailAddress {
  /** `local@domain` as it is kept and sent: the local part as given, the domain lower case in A-labels. */
  readonly text: string
  readonly local: string
  /** Lower case, A-labels. */
  readonly domain: string
  /** What suppressions are compared by: `text` in lower case. No folding of `+tag` or dots (decisions D). */
  readonly key: string
  /** True when the local part has non-ASCII characters, so that the next hop must offer SMTPUTF8. */
  readonly needsSmtputf8: boolean
}
