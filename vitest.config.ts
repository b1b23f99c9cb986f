// All tests of the house in one run: fast ones beside their files, whole journeys in test/.
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'tools/**/*.test.ts', 'sdk/**/*.test.ts'],
    globalSetup: ['test/setup.ts'],
    pool: 'forks',
    // Journeys start processes of their own; more workers than two only make each other late.
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    teardownTimeout: 30_000,
  },
})
