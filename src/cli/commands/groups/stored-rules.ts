import type { Command } from 'commander'
import type { GroupRule } from '../../../store/internal.js'
import type { Environment } from '../../environment.js'
import { isStoreNamed, type StoreOptions, withStore } from '../shared/open-store.js'
import { nonEmpty } from '../shared/options.js'

/** Adds the flag for the store whose rules about groups apply to failures outside of it. */
export function withRulesOption(command: Command): Command {
  return command.option('--store <url>', 'Store with rules about groups (or REDRIVE_STORE; default: none)', nonEmpty)
}

/** The rules about groups of the store, if one is configured. */
export async function storedRules(options: StoreOptions, environment: Environment): Promise<readonly GroupRule[]> {
  if (!isStoreNamed(options, environment)) return []
  return withStore(options, environment, async store => (await store.groups.rules()).rules)
}
