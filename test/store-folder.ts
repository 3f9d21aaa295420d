import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '../src/cli/environment.js'
import { openSqlite, type SqliteStore } from '../src/store/sqlite/internal.js'
import { runCommand } from './command.js'

/** A folder of its own for a test of the command, with the default store in it. */
export function storeFolder() {
  const path = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
  return {
    path,
    /** Runs the command there. */
    redrive: (argv: readonly string[], overrides: Partial<Environment> = {}) =>
      runCommand(argv, { cwd: path, ...overrides }),
    /** Uses the default store, which is made if there is none. */
    async inStore<T>(use: (store: SqliteStore) => Promise<T>): Promise<T> {
      const store = await openSqlite(join(path, '.redrive/redrive.db'))
      try {
        return await use(store)
      } finally {
        await store.close()
      }
    },
    remove: () => rmSync(path, { recursive: true, force: true }),
  }
}

export type StoreFolder = ReturnType<typeof storeFolder>
