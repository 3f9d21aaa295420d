import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig } from 'vitest/config'
import { SlowestFirst } from './test/slowest-first.js'
import { subpaths } from './test/subpaths.js'

/** `npm test` runs each fault once. `npm run test:long` runs the longer variants: more kills, other server versions. */
const LONG = '**/*.long.test.ts'

/** Runs the code of the docs, which may leave anything behind in its process. */
const DOCS = 'test/docs.test.ts'

export default defineConfig(({ mode }) => ({
  resolve: {
    alias: Object.entries(subpaths()).map(([name, source]) => ({
      find: new RegExp(`^${name}$`),
      replacement: `${import.meta.dirname}/${source}`,
    })),
  },
  test: {
    ...(mode === 'long' && { include: [LONG] }),
    exclude: mode === 'long' ? configDefaults.exclude : [...configDefaults.exclude, LONG],
    globalSetup: ['test/services/global-setup.ts'],
    // Most tests wait for servers and processes: with one worker fewer than cores, as by default, the machine stands idle.
    maxWorkers: availableParallelism() + 2,
    // The files that a worker runs share the modules that they import: to load them anew for each took half of the time.
    // Whatever a file replaces (a module, a global, the clock), it puts back.
    isolate: false,
    ...(mode !== 'long' && {
      projects: [
        { extends: true, test: { name: 'shared', include: ['{src,test}/**/*.test.ts'], exclude: [DOCS] } },
        { extends: true, test: { name: 'apart', include: [DOCS], isolate: true, typecheck: { enabled: false } } },
      ],
    }),
    sequence: { sequencer: SlowestFirst },
    // Many tests talk to servers and start processes on machines that are busy with other things, where the default
    // time-outs are too short.
    testTimeout: mode === 'long' ? 180_000 : 60_000,
    hookTimeout: mode === 'long' ? 180_000 : 60_000,
    expect: { poll: { timeout: 10_000 } },
    typecheck: { enabled: mode !== 'long', include: ['test/types/**/*.test-d.ts'] },
  },
}))
