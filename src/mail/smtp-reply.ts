// An SMTP reply (RFC 5321 4.2), read strictly and within bounds: replies come split at every byte, and from strangers.

export interface SmtpReply {
  /** Three digits, 200 to 559. */
  readonly code: number
  /** RFC 3463, where the first line carries one whose class agrees with the code: `5.1.1`. */
  readonly enhancedCode?: string
  /** The text of all lines, without codes, joined by line feeds; control characters replaced; bounded. */
  readonly text: string
}
