// The page of settings for operators, docs/config.md: made from the table in config.ts by `npm run golden`, and checked against it.
import { settingTable } from './config.ts'

const head = `# Settings

Posthorn is set by environment variables. Every setting has a default; \`npm start\` needs none. An empty value counts as unset. A wrong value,
and a name that begins with \`POSTHORN_\` and is not in this table, stops the start with one message that lists every mistake.

This page is made from \`src/config.ts\` (\`npm run golden\`); the last column marks values that never appear in a log.

| name | default | meaning | secret |
|---|---|---|---|
`

export function settingsPage(): string {
  const rows = Object.entries(settingTable).map(
    ([name, { shown, sentence, ...more }]) =>
      `| \`${name}\` | ${cell(shown)} | ${cell(sentence)} | ${'secret' in more ? 'yes' : ''} |\n`,
  )
  return head + rows.join('')
}

/** A pipe would end the cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|')
