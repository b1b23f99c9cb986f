// A word of a command to paste: addresses may hold what means something to a shell (`o'neil@example.org`, even a backquote).

export const quoted = (word: string): string => (/^[\w.@+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
