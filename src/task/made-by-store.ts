import { OptionError } from '../policy/index.js'
import type { DeclaredTask } from './declare-task.js'

/** The part of a task that only a process with its code can do: it encodes payloads, and makes unique keys from them. */
interface CodedTask {
  readonly kind: string
  readonly codec?: DeclaredTask['codec'] | undefined
  readonly uniqueOf?: DeclaredTask['uniqueOf']
}

/**
 * Refuses a task for an option whose tasks the store makes by itself, from data, if their payloads must be encrypted, or if its
 * kind has a unique key: the payload would be there as plain text, and the key would be missing.
 */
export function checkMadeByStore(option: string, { kind, codec, uniqueOf }: CodedTask): void {
  const why = codec?.isRequired
    ? `Its payload would stand in the store as plain text, and the payloads of '${kind}' must be encrypted.`
    : uniqueOf && `The store adds it without calling your code, which makes the unique key of '${kind}'.`
  if (why === undefined) return
  throw new OptionError(option, `'${option}' cannot be the task '${kind}'. ${why} Name a task that enqueues it.`)
}
