import { shownText } from '../codec/internal.js'
import { type GiveUpReason, hashJson } from '../policy/index.js'
import type { NewTask, TaskRecord } from '../store/index.js'
import type { AttemptEntry, ClaimedTask, FAILED_BY_HAND } from '../store/internal.js'

/** Why a task is dead. */
export type DeathReason = GiveUpReason | typeof FAILED_BY_HAND

/** The payload of a task that follows a death: the dead letter, and what it died of. */
export interface Death {
  /** The id of the dead letter. `queue.deadLetter(id)` has its payload and its history. */
  readonly id: string
  /** Its kind. */
  readonly kind: string
  /** The category of its lane; empty if there is none. */
  readonly category: string
  /** The key of its lane; empty if there is none. */
  readonly key: string
  /** Why it is dead: the kernel's reason, or that a person failed it. */
  readonly reason: DeathReason
  /** The code of its last failure, such as `http_502`; `null` if it never failed. */
  readonly errorCode: string | null
  /** Name and message of its last failure, bounded and redacted; `null` if it never failed. Of an encrypted kind, the name alone. */
  readonly errorMessage: string | null
  /** How many of its attempts failed. */
  readonly attempts: number
}

/** A task that has died, as its claim has it, or with a token for its death. */
type Mortal = Pick<
  TaskRecord,
  'id' | 'kind' | 'category' | 'key' | 'attempts' | 'errorCode' | 'errorMessage' | 'traceparent'
> &
  Pick<ClaimedTask, 'token'> &
  Partial<Pick<ClaimedTask, 'isUndecided'>>

/** A longer id could not be stored with what is added to it. */
const MAX_ID_BYTES = 480

/**
 * The tasks that follow a death: at most one, of the kind that is to follow. Its id is made of the letter's and of the claim that
 * ended in the death, so that it is the same however often the settlement is sent, and another one after a redrive. It goes to
 * the lane of the same key.
 *
 * Nothing follows the death of a task that followed one itself: such chains could lead back, and never end.
 */
export function followers(
  kindAfter: string | undefined,
  task: Mortal,
  reason: DeathReason,
  attempt?: AttemptEntry | undefined,
): readonly NewTask[] | undefined {
  const { id, kind, category, key, token, traceparent } = task
  if (kindAfter === undefined || isAfterDeath(id)) return undefined
  const error = attempt?.error ?? task.errorMessage
  const death: Death = {
    id,
    kind,
    category,
    key,
    reason,
    errorCode: attempt?.verdict?.code ?? task.errorCode ?? null,
    errorMessage: error === undefined ? null : shownText(error),
    attempts: attempt === undefined || task.isUndecided ? task.attempts : Math.max(task.attempts + 1, attempt.attempt),
  }
  const letter = Buffer.byteLength(id) > MAX_ID_BYTES ? hashJson(id) : id
  const claim = hashJson(token).slice(0, 16)
  const payload = JSON.stringify(death)
  return [
    { id: `${letter}/dead/${claim}`, kind: kindAfter, key, payload, ...(traceparent !== undefined && { traceparent }) },
  ]
}

function isAfterDeath(id: string): boolean {
  return /\/dead\/[0-9a-f]{16}$/.test(id)
}
