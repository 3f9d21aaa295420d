import type { SweeperSettings } from '../document/index.js'
import type { NotifyOptions } from '../notify/index.js'

/**
 * The default export of `redrive.config.ts`: the values of flags that all commands of a project share, the settings of its
 * sweeper, and the notices that its workers send.
 *
 * ```ts
 * export default { store: process.env.DATABASE_URL } satisfies RedriveConfig
 * ```
 */
export interface RedriveConfig extends Partial<SweeperSettings> {
  /** URL of the store, as `--store` takes it. */
  readonly store?: string | undefined
  /** URL of the bus, as `--bus` takes it. */
  readonly bus?: string | undefined
  /** URL of the monitoring of the bus, as `--monitor` takes it. */
  readonly monitor?: string | undefined
  /** URL of the database that has the documents, as `--source` takes it. */
  readonly source?: string | undefined
  /** Path of the module that exports the tasks, from the folder of this file, as `--tasks` takes it. */
  readonly tasks?: string | undefined
  /** Name of a preset, as `--preset` takes it. */
  readonly preset?: string | undefined
  /** The messages that `redrive worker` sends. */
  readonly notify?: NotifyOptions
}
