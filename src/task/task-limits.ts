import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { SharedLimits } from '../store/internal.js'
import { checkedShared } from '../store/internal.js'
import { type RateInput, toRates } from './rate.js'

/** Limits over all tasks of a kind together, whatever their lanes and workers: the quota of a provider. @inline */
export interface TaskLimits {
  /** How many may run at once, over all workers. */
  readonly concurrency?: number | undefined
  /** Buckets that fill at a steady rate, by name. A task takes its `cost` from each, 1 unless it says otherwise. */
  readonly rates?: Readonly<Record<string, RateInput>> | undefined
}

const TASK_LIMITS: KnownOptions<TaskLimits> = { concurrency: '', rates: 'object' }

/** The limits of a task as a store takes them: declared by code, so that those an operator sets later hold. */
export function toSharedLimits(kind: string, limits: TaskLimits): SharedLimits {
  checkOptions(`'limits' of the task '${kind}'`, limits, TASK_LIMITS)
  const { concurrency, rates = {} } = limits
  const shared = { isShared: true, concurrency, rates: toRates(`the task '${kind}'`, rates) } as const
  return { ...checkedShared({ kind }, shared), isDeclared: true }
}
