import { OptionError } from '../../../policy/index.js'
import { quoted } from '../../../policy/internal.js'
import type { BatchChunk } from '../../contract/batch-store.js'
import type { NewTask } from '../../contract/task.js'
import { checkName, checkNewTask, checkText } from '../check.js'

/** Checks of the arguments of a batch's verbs. */

const NAME = /^[A-Za-z0-9_.-]{1,100}$/

/** Throws an `OptionError` unless it can be the name of a batch. */
export function checkBatchName(name: unknown): asserts name is string {
  if (typeof name === 'string' && NAME.test(name)) return
  throw new OptionError('name', `The name of a batch must be 1 to 100 letters, digits and _.- but is ${quoted(name)}.`)
}

export function checkBatchChunk({ position, onEnd }: BatchChunk): void {
  if (!(Number.isSafeInteger(position) && position >= 0))
    throw new OptionError('position', `'position' must be a whole number, 0 or more, got ${quoted(position)}.`)
  if (onEnd === undefined) return
  checkName('kind', onEnd.kind)
  if (onEnd.category !== undefined) checkName('category', onEnd.category)
  if (onEnd.key !== undefined) checkName('key', onEnd.key)
  checkText('payload', onEnd.payload)
}

/** Checks a new member. All members count: one that is not added, since another task has its key, would be missing. */
export function checkMember(task: NewTask): void {
  checkNewTask(task)
  if (task.unique === undefined) return
  const advice =
    "Leave 'unique' out, or put tasks of a kind without it into the batch, and let these enqueue the others."
  throw new OptionError('unique', `A task of a batch, here a '${task.kind}', cannot have a unique key. ${advice}`)
}
