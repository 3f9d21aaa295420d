import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig } from 'vitest/config'
import { subpaths } from './test/subpaths.js'

/** `npm test` runs each fault once. `npm run test:long` runs the longer variants: more kills, other server versions. */
const LONG = '**/*.long.test.ts'

export default defineConfig(({ mode }) => ({
  resolve: {
    alias: Object.entries(subpaths()).map(([name, source]) => ({
      find: new RegExp(`^${name}$`),
      replacement: `${import.meta.dirname}/${source}`,
    })),
  },
  test: {
    include: mode === 'long' ? [LONG] : ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: mode === 'long' ? configDefaults.exclude : [...configDefaults.exclude, LONG],
    globalSetup: ['test/services/global-setup.ts'],
    // Most tests wait for servers and processes: with one worker fewer than cores, as by default, the machine stands idle.
    maxWorkers: availableParallelism() + 1,
    // Many tests talk to servers and start processes on machines that are busy with other things, where the default
    // time-outs are too short.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 10_000 } },
    typecheck: { enabled: mode !== 'long', include: ['test/types/**/*.test-d.ts'] },
  },
}))
