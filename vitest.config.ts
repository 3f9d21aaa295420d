import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: {
    alias: [
      { find: /^redrive$/, replacement: `${import.meta.dirname}/src/index.ts` },
      { find: /^redrive\/(postgres|sqlite)$/, replacement: `${import.meta.dirname}/src/store/$1/index.ts` },
      { find: /^redrive\/(nats|rabbitmq)$/, replacement: `${import.meta.dirname}/src/bus/$1/index.ts` },
      { find: /^redrive\/(.+)$/, replacement: `${import.meta.dirname}/src/$1/index.ts` },
    ],
  },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['test/services/global-setup.ts'],
    // Many tests talk to servers and start processes, on machines that are busy with other things: what is not so yet
    // after the seconds that are the defaults may still become so.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 10_000 } },
    typecheck: { enabled: true, include: ['test/types/**/*.test-d.ts'] },
  },
})
