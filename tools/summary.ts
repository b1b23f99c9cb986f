// A reporter for vitest that writes `N passed, N failed` into the file named by TEST_COUNTS; bin/test prints it as the very last
// line. A file that cannot be loaded, and an error outside any test, count as failed: a run that proves nothing must not look green.
import { writeFileSync } from 'node:fs'
import type { Reporter, SerializedError, TestModule } from 'vitest/node'

export default class Summary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    const file = process.env['TEST_COUNTS']
    if (file !== undefined) writeFileSync(file, `${countLine(modules, errors.length)}\n`)
  }
}

function countLine(modules: readonly TestModule[], errors: number): string {
  let passed = 0
  let failed = errors
  for (const module of modules) {
    failed += module.errors().length
    // What went wrong before or after the tests of a `describe`: its tests are only skipped.
    for (const suite of module.children.allSuites()) failed += suite.errors().length
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      if (state === 'passed') passed++
      if (state === 'failed' || state === 'pending') failed++
    }
  }
  return `${passed} passed, ${failed} failed`
}
