import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: {
    alias: [
      { find: /^redrive$/, replacement: `${import.meta.dirname}/src/index.ts` },
      { find: /^redrive\/sqlite$/, replacement: `${import.meta.dirname}/src/store/sqlite/index.ts` },
      { find: /^redrive\/(.+)$/, replacement: `${import.meta.dirname}/src/$1/index.ts` },
    ],
  },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    typecheck: { enabled: true, include: ['test/types/**/*.test-d.ts'] },
  },
})
