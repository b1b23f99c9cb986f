// What a terminal obeys in place of showing it: strangers' words reach one in what commands print, and in the log that somebody looks at.

/** Control characters, and what turns the reading direction for what stands behind it (Unicode TR 36, 3.2). Line ends and tabs are ours. */
export const terminalControls = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g

/** JSON itself escapes C0 alone. */
export const escapedJson = (json: string): string =>
  json.replace(terminalControls, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`)
