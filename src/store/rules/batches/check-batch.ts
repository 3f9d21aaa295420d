import { OptionError } from '../../../policy/index.js'
import { quoted } from '../../../policy/internal.js'
import type { BatchChunk } from '../../contract/batch-store.js'
import { checkName, checkText } from '../check.js'

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
