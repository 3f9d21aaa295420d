import { defineConfig } from 'vitest/config'
import { subpaths } from './test/subpaths.js'

export default defineConfig({
  resolve: {
    alias: Object.entries(subpaths()).map(([name, source]) => ({
      find: new RegExp(`^${name}$`),
      replacement: `${import.meta.dirname}/${source}`,
    })),
  },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['test/services/global-setup.ts'],
    // Many tests talk to servers and start processes on machines that are busy with other things, where the default
    // time-outs are too short.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 10_000 } },
    typecheck: { enabled: true, include: ['test/types/**/*.test-d.ts'] },
  },
})
