import { OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { SharedLimits } from '../store/internal.js'
import { checkedShared } from '../store/internal.js'
import { type RateInput, toRates } from './rate.js'

/** Limits over many tasks of a kind together, whatever their lanes and workers. @inline */
export interface LimitsTogether {
  /** How many may run at once, over all workers. */
  readonly concurrency?: number | undefined
  /** Buckets that fill at a steady rate, by name. A task takes its `cost` from each, 1 unless it says otherwise. */
  readonly rates?: Readonly<Record<string, RateInput>> | undefined
}

/** Limits over all tasks of a kind together: the quota of a provider. Or over those of each quota: of each account. @inline */
export interface TaskLimits extends LimitsTogether {
  /** The limits of each quota that tasks are enqueued with, instead of limits over all tasks. */
  readonly quota?: LimitsTogether | undefined
}

const LIMITS_TOGETHER: KnownOptions<LimitsTogether> = { concurrency: '', rates: 'object' }
const TASK_LIMITS: KnownOptions<TaskLimits> = { ...LIMITS_TOGETHER, quota: 'object' }

/** The limits of a task as a store takes them: declared by code, so that those an operator sets later hold. */
export function toSharedLimits(kind: string, limits: TaskLimits): SharedLimits {
  checkOptions(`'limits' of the task '${kind}'`, limits, TASK_LIMITS)
  const { quota, ...overall } = limits
  if (quota === undefined) return sharedLimits(kind, overall)
  checkOptions(`'limits.quota' of the task '${kind}'`, quota, LIMITS_TOGETHER)
  if (overall.concurrency !== undefined || overall.rates !== undefined) {
    const problem = `'limits' of the task '${kind}' are for all its tasks together or for each quota, not for both.`
    throw new OptionError('limits', `${problem} Leave out 'quota', or move 'concurrency' and 'rates' into it.`)
  }
  return sharedLimits(kind, quota, { isPerQuota: true })
}

function sharedLimits(
  kind: string,
  { concurrency, rates = {} }: LimitsTogether,
  scope: { readonly isPerQuota?: true } = {},
): SharedLimits {
  const shared = { isShared: true, ...scope, concurrency, rates: toRates(`the task '${kind}'`, rates) } as const
  return { ...checkedShared({ kind }, shared), isDeclared: true }
}
