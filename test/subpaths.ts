import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** The root of the repository. */
export const ROOT = resolve(import.meta.dirname, '..')

/** Reads a JSON file of the repository. */
export function readJson(path: string) {
  return JSON.parse(readFileSync(join(ROOT, path), 'utf8'))
}

/**
 * Every import of the package with its source file: `redrive/task` → `src/task/index.ts`. The `exports` of package.json are
 * the one list; the aliases of the test runner come from here, and a test holds the paths of tsconfig.json against it.
 */
export function subpaths(): Record<string, string> {
  const { exports }: { exports: Record<string, string | { default: string }> } = readJson('package.json')
  return Object.fromEntries(
    Object.entries(exports).flatMap(([path, target]) =>
      typeof target === 'string'
        ? []
        : [[path.replace(/^\./, 'redrive'), target.default.replace(/^\.\/dist\/(.*)\.js$/, 'src/$1.ts')]],
    ),
  )
}
