import { toMs } from '../engine/internal.js'
import { type Duration, OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../policy/internal.js'
import type { UniqueConflict, UniqueKey, UniqueScope } from '../store/internal.js'

/** A key that at most one task of its kind may have within a scope. */
export interface TaskUnique {
  /** The key. Each kind has its own. */
  readonly key: string
  /**
   * How long a task has its key: while it is `waiting` for its first attempt; while it is `unfinished`, retries included, until
   * it succeeds, is skipped, dies or is cancelled; or `within` a time, whatever becomes of it.
   */
  readonly while: UniqueScope
  /** With `while: 'within'`: for how long. */
  readonly within?: Duration | undefined
  /**
   * What happens if another task has the key: that one is kept, and nothing is added (`keep`); it is cancelled (`replace`); it
   * gets this payload and this time (`postpone`); or the new task waits for its end (`after`).
   */
  readonly conflict: UniqueConflict
  /** With `conflict: 'postpone'`: the longest time by which a task may be postponed, from when it was enqueued. */
  readonly maxWait?: Duration | undefined
}

/** The unique key of all tasks of a kind. */
export interface KindUnique<Input> extends Omit<TaskUnique, 'key'> {
  /** The key of a task, from its payload. */
  key(payload: Input): string
}

const FIELDS: KnownOptions<TaskUnique> = { key: '', while: '', within: '', conflict: '', maxWait: '' }

/** A unique key as a store takes it. */
export function toUniqueKey(unique: TaskUnique): UniqueKey {
  checkOptions("'unique'", unique, FIELDS)
  const { key, while: scope, within, conflict, maxWait } = unique
  return {
    key,
    while: scope,
    conflict,
    ...(within !== undefined && { withinMs: toMs('unique.within', within) }),
    ...(maxWait !== undefined && { maxWaitMs: toMs('unique.maxWait', maxWait) }),
  }
}

/** Makes the unique key of a task from its payload. Everything but the key is checked at once. */
export function uniqueOfKind<Input>(kind: string, unique: KindUnique<Input>): (payload: Input) => UniqueKey {
  checkOptions(`'unique' of '${kind}'`, unique, FIELDS)
  if (typeof unique.key !== 'function')
    throw new OptionError(
      'unique.key',
      `'unique.key' of '${kind}' must be a function of the payload, got ${quoted(unique.key)}.`,
    )
  const settings = toUniqueKey({ ...unique, key: '' })
  return payload => ({ ...settings, key: unique.key(payload) })
}
