import { OptionError } from '../policy/index.js'
import type { DeclaredTask } from './declare-task.js'

/** The part of a task that says how it is encoded. */
interface CodedTask {
  readonly kind: string
  readonly codec?: DeclaredTask['codec'] | undefined
}

/** Refuses a task whose payloads must be encrypted where a store keeps, or makes, a payload that is not. */
export function refuseCodec(option: string, { kind, codec }: CodedTask): void {
  if (!codec?.isRequired) return
  const why = `Its payload would stand in the store as plain text, and the payloads of '${kind}' must be encrypted.`
  throw new OptionError(option, `'${option}' cannot be the task '${kind}'. ${why} Name a task that enqueues it.`)
}
