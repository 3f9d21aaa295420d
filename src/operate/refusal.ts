import { quoted } from '../policy/internal.js'
import type { TaskStatus } from '../store/index.js'
import type { Remark } from './cause.js'

/** A task that was named and left as it was, and why. */
export interface Refusal extends Remark {
  /** The id of the task. */
  readonly id: string
}

/** The refusal of a task that does not exist. */
export function notFound(id: string): Refusal {
  return { id, code: 'not_found', text: `${quoted(id)} is not in the store.` }
}

/** The refusal of a task that is not a dead letter. */
export function notDead(id: string, status: TaskStatus): Refusal {
  return { id, code: 'not_dead', text: `${quoted(id)} is not dead: ${isText(status)}.` }
}

/** The refusal to redrive a dead letter whose unique key another task has by now. */
export function twinAlive(id: string, twin: string): Refusal {
  const text = `${quoted(id)} stays dead: ${quoted(twin)} has its unique key by now. To redrive it, pass --twin after or --twin replace.`
  return { id, code: 'twin_alive', text }
}

/** The refusal to discard an item of a pipeline. */
export function ofRun(id: string): Refusal {
  const text = `${quoted(id)} is an item of a pipeline, and its run counts it. Reprocess it, or prune the run as a whole.`
  return { id, code: 'item_of_run', text }
}

/** The refusal to end or delete an item of a pipeline by hand. */
export function ofRunByHand(id: string): Refusal {
  const text = `${quoted(id)} is an item of a pipeline, and its run counts it. Cancel it, reprocess it, or prune the run as a whole.`
  return { id, code: 'item_of_run', text }
}

/** The refusal to end or delete a task by hand while a worker has it. */
export function runs(id: string): Refusal {
  const text = `${quoted(id)} is running, and its handler may yet do the work. Cancel it first, and try again when it has ended.`
  return { id, code: 'running', text }
}

/** The refusal to delete a member of a batch. */
export function memberOf(id: string, batch: string): Refusal {
  const text = `${quoted(id)} is a member of the batch ${quoted(batch)}, which counts it. It is deleted with the batch, by retention.`
  return { id, code: 'member_of_batch', text }
}

/** The refusal to keep a result in plain text beside a payload that is encoded. */
export function noCodec(id: string, kind: string): Refusal {
  const text = `${quoted(id)} is of the encoded kind ${quoted(kind)}, and there is no codec for its result here. Pass its task.`
  return { id, code: 'no_codec', text }
}

/** The refusal of a task that came into another state, or was locked, while it was to be changed. */
export function changedSince(id: string): Refusal {
  return {
    id,
    code: 'changed',
    text: `${quoted(id)} was changed by somebody else meanwhile. Look at it, and try again.`,
  }
}

/** The refusal to ask a running task again to end. */
export function alreadyRequested(id: string): Refusal {
  const text = `${quoted(id)} is running, and its cancellation was requested already: it ends when its handler does.`
  return { id, code: 'cancel_requested', text }
}

/** The refusal of a task that has ended already, or had when it was to be cancelled. */
export function alreadyEnded(id: string, status: TaskStatus): Refusal {
  if (status === 'waiting')
    return { id, code: 'redriven_since', text: `${quoted(id)} was redriven meanwhile: it waits again.` }
  return { id, code: 'already_ended', text: `${quoted(id)} has ended already: ${isText(status)}.` }
}

/** `it has succeeded`, `it is waiting` */
export function isText(status: TaskStatus): string {
  return status === 'succeeded' ? 'it has succeeded' : `it is ${status}`
}
