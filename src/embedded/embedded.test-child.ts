// A process of its own with an embedded PostgreSQL, for embedded.test.ts to kill: `dataDir purpose`. Prints one line of JSON when it
// is ready or has failed; stops when its standard input ends.
import { silentLog } from '../base/log.ts'
import { embeddedPostgres } from './embedded.ts'

const [dataDir = '', purpose] = process.argv.slice(2)
const postgres = embeddedPostgres({
  dataDir,
  purpose: purpose === 'command' ? 'command' : 'serve',
  log: silentLog,
  memoryBytes: 512 * 1024 * 1024,
  onLost: (error) => {
    console.log(JSON.stringify({ lost: error.message }))
    process.exit(1)
  },
})
process.stdin.on('end', () => void postgres.stop()).resume()
try {
  const { connection } = await postgres.start()
  console.log(JSON.stringify({ connection }))
} catch (error) {
  console.log(JSON.stringify({ trouble: error instanceof Error ? error.message : String(error) }))
  process.exit(1)
}
