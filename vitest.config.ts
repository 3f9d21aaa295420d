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
    typecheck: { enabled: true, include: ['test/types/**/*.test-d.ts'] },
  },
})
