// All tests of the house in one run: fast ones beside their files, whole journeys in test/.
import { sep } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** In a fresh clone nobody knows how long a file takes, and the largest go first: the simulation, a short file, would have the end for itself. */
class LongStoriesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isStory = ({ moduleId }: TestSpecification): boolean => moduleId.includes(`${sep}test${sep}`)
    const sorted = await super.sort(files)
    return [...sorted.filter(isStory), ...sorted.filter((file) => !isStory(file))]
  }
}

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'tools/**/*.test.ts', 'sdk/**/*.test.ts'],
    globalSetup: ['test/setup.ts'],
    sequence: { sequencer: LongStoriesFirst },
    pool: 'forks',
    // Journeys wait for processes of their own, so that two workers leave a third of two cores idle; more than three make each other late.
    maxWorkers: 3,
    // A limit for what hangs: machines have been seen that are three times as slow as others.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    teardownTimeout: 90_000,
    expect: { poll: { timeout: 30_000 } },
  },
})
