// What a test or a file has started ends after it: the last first, each of them, also where another one failed to start or to end.
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, onTestFinished, TestRunner } from 'vitest'

const ends: (() => unknown)[] = []
afterAll(async () => {
  const failed: unknown[] = []
  for (const end of ends.toReversed()) {
    try {
      await end()
    } catch (error) {
      failed.push(error)
    }
  }
  if (failed.length > 0) throw failed[0]
})

/** After the test that asks; at the top of a file and in a hook before all of its tests, after the last of them. Not for tests that run side by side. */
export function atTheEnd(end: () => unknown): void {
  if (TestRunner.getCurrentTest() === undefined) ends.push(end)
  else onTestFinished(async () => void (await end()))
}

type Started = { remove(): unknown } | { stop(): unknown } | { drop(): unknown } | { close(): unknown }

/** What this starts ends so. */
export async function ending<Options extends readonly unknown[], Made extends Started>(
  start: (...options: Options) => Promise<Made>,
  ...options: Options
): Promise<Made> {
  const started = await start(...options)
  atTheEnd(() => {
    if ('remove' in started) return started.remove()
    if ('stop' in started) return started.stop()
    return 'drop' in started ? started.drop() : started.close()
  })
  return started
}

/** A new folder, which goes with the whole run (test/setup.ts). */
export const temporaryFolder = (): string => mkdtempSync(join(process.env['TEST_RUN_FOLDER'] ?? tmpdir(), 'folder-'))
