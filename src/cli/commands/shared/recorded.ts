import type { Command } from 'commander'
import type { By } from '../../../store/index.js'
import type { StoreContract } from '../../../store/internal.js'
import type { Environment } from '../../environment.js'
import { UsageError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { isStoreNamed, type StoreOptions, withStore } from './open-store.js'
import { nonEmpty } from './options.js'

/** The flags of bulk acts outside of the store, which work without one too. */
export interface RecordOptions extends StoreOptions {
  readonly why?: string
  readonly detach?: boolean
}

/** Adds the flags for the record of a bulk act outside of the store. */
export function withRecordOptions(command: Command): Command {
  return command
    .option('--store <url>', 'Store that keeps it on record (or REDRIVE_STORE; default: none)', nonEmpty)
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--detach', 'Return at once; a running sweeper or consumer carries it out')
}

/** Opens the store that is to keep a record, if one is configured, and closes it afterwards. */
export function withRecord<T>(
  options: RecordOptions,
  environment: Environment,
  use: (record: (By & { readonly store: StoreContract }) | undefined) => Promise<T>,
): Promise<T> {
  if (!isStoreNamed(options, environment)) {
    if (options.detach)
      throw new UsageError('--detach needs a store, where another process finds the operation. Pass --store.')
    return use(undefined)
  }
  const { why } = options
  const by = { who: environment.user, why }
  return withStore(options, environment, store => use({ store, ...by }))
}

/** How to go on with a bulk act outside of the store that has ended early. */
export function goOnText(operation: string | null): string {
  if (operation === null) return 'To go on, run the same command again.'
  return `To go on, run: ${suggest('ops continue', {}, operation)}`
}
