import { OptionError } from '../policy/index.js'
import { commandLine, quoted } from '../policy/internal.js'
import type { Store } from '../store/index.js'

import {
  checkNewOperation,
  contractOf,
  type NewOperation,
  type OperationRecord,
  type StoreContract,
} from '../store/internal.js'
import { findGroup } from './groups.js'
import type { StartOptions } from './operations.js'
import { pagesOf } from './pages.js'

/** Who says that a group is fixed, in which release, and how its dead letters are redriven. */
export interface FixOptions extends StartOptions {
  /** The first release with the fix. */
  readonly release: string
}

const CANARY = 10

/**
 * Marks a failure group as fixed in a release, and plans to redrive its dead letters. The redrive starts by itself, with a
 * canary of 10 unless you say another, when all live workers of the group's kind report that release or a later one. Any
 * live worker carries it out.
 *
 * ```ts
 * await redriveWhenFixed(store, '1-9c2f0b7d41aa83e6', { release: '1.8.0', who: 'ada' })
 * ```
 */
export async function redriveWhenFixed(
  store: Store,
  group: string,
  { release, who, why, canary = CANARY, ...settings }: FixOptions,
): Promise<OperationRecord> {
  const contract = contractOf(store)
  const { id, kind } = await findGroup(contract, group)
  await refuseSecond(contract, id)
  const by = { who, why }
  const running = (await contract.workers()).flatMap(worker => worker.release ?? [])
  const before = [...new Set(running)].filter(other => other !== release).sort()
  const operation: NewOperation = {
    act: 'redrive',
    set: { filter: { kind, group: id }, until: await contract.now() },
    by,
    settings: { ...settings, canary, fixedIn: { release, before } },
  }
  // Refused here, before the group is marked.
  checkNewOperation(operation)
  if (!(await contract.groups.mark(id, { state: 'fixed', release }, by)))
    throw new OptionError('group', `The failure group ${quoted(id)} has just been deleted.`)
  return contract.operations.create(operation)
}

/** Two operations that start with the same release would both send a canary, and move twice as many at a time. */
async function refuseSecond({ operations }: Pick<StoreContract, 'operations'>, group: string): Promise<void> {
  for await (const page of pagesOf(page => operations.list({ isOpen: true }, page))) {
    const first = page.find(({ set, settings }) => settings.fixedIn && 'filter' in set && set.filter.group === group)
    if (first === undefined) continue
    const text = `A redrive of the failure group ${quoted(group)} waits for its fix already. To stop it, run: ${commandLine('ops stop', {}, first.id)}`
    throw new OptionError('group', text)
  }
}
