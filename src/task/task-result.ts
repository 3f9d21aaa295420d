import { type KindCodec, refuseEncoded, shownText } from '../codec/internal.js'
import { Bell, decodedTask, readableError, strictly } from '../engine/internal.js'
import { TimeoutError } from '../policy/index.js'
import type { TaskRecord } from '../store/index.js'
import type { StoreContract } from '../store/internal.js'
import { type Clock, unwatchAbort, watchAbort } from '../time/index.js'
import type { DeclaredTask } from './declare-task.js'
import { ResultError, TaskKindError, TaskNotFoundError, TaskNotSucceededError } from './errors.js'
import { validate } from './standard-schema.js'

/** A task as its queue shows it: its record, with payload and result as values. */
export interface Task<Payload = unknown, Result = unknown> extends Omit<TaskRecord, 'payload' | 'value' | 'result'> {
  /** The payload, as it was enqueued. Of a kind with a codec, and without its task, the encoded text. */
  readonly payload: Payload
  /** The result, once it has succeeded. */
  readonly result: Result | undefined
}

/** A task whose payload is of type `Input` and whose result is read as `Output`. */
type TaskOf<Input, Output> = DeclaredTask<unknown, unknown, Input, Output>

/** Throws if a task is not of the kind that was asked for: its values would have other types than the caller is told. */
function checkKind({ id, kind }: TaskRecord, task: Pick<DeclaredTask, 'kind'> | undefined): void {
  if (task !== undefined && task.kind !== kind) throw new TaskKindError(id, kind, task.kind)
}

/** A record as its queue shows it. The types are those of the task, if one is given, and its result passes its schema. */
export async function taskOf<Input, Output>(
  stored: TaskRecord,
  task?: TaskOf<Input, Output>,
): Promise<Task<Input, Output>> {
  checkKind(stored, task)
  const codec = task?.codec
  const decoded = codec === undefined ? stored : decodedTask(stored, codec, strictly(codec))
  const { payload, value: _, result, ...record } = decoded
  return {
    ...record,
    errorMessage: record.errorMessage === undefined ? undefined : shownText(record.errorMessage),
    payload: parsed(payload) as Input,
    result: isKept(record) ? await resultValue(record.id, result, task) : undefined,
  }
}

/** Whether it has a result. A success whose result was not kept has the reason for that instead. */
function isKept({ status, reason }: Pick<TaskRecord, 'status' | 'reason'>): boolean {
  return status === 'succeeded' && reason === undefined
}

/** The result of a task that has ended. Throws if it has none. */
export async function resultOf<Output>(record: TaskRecord, task?: TaskOf<unknown, Output>): Promise<Output> {
  const { id, status, reason } = record
  if (status !== 'succeeded') throw new TaskNotSucceededError(withReadableError(record, task?.codec))
  if (reason !== undefined) throw new ResultError(id, `was not kept: ${reason}`, 'result_not_kept')
  const { result } = record
  if (result === undefined) return resultValue(id, undefined, task)
  // A text that a codec has encoded must not pass for the result.
  if (task?.codec === undefined) refuseEncoded(result, record.kind)
  return resultValue(id, task?.codec?.decode(result, 'result', id) ?? result, task)
}

function withReadableError(record: TaskRecord, codec: KindCodec | undefined): TaskRecord {
  const { id, errorMessage } = record
  return errorMessage === undefined ? record : { ...record, errorMessage: readableError(errorMessage, id, codec) }
}

async function resultValue<Output>(
  id: string,
  result: string | undefined,
  task: TaskOf<unknown, Output> | undefined,
): Promise<Output> {
  const value = result === undefined ? undefined : parsed(result)
  if (task?.resultSchema === undefined) return value as Output
  const validated = await validate(task.resultSchema, value)
  if ('value' in validated) return validated.value
  throw new ResultError(id, `is invalid for the task '${task.kind}': ${validated.problem}`, 'result_invalid')
}

/** The value of a JSON text. A record that was written by hand may hold any text: that is its own value. */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return json
  }
}

/** Which kind of task to wait for, and when to stop waiting. */
export interface Patience {
  readonly task: Pick<DeclaredTask, 'kind'> | undefined
  readonly clock: Clock
  readonly timeoutMs: number | undefined
  readonly signal: AbortSignal | undefined
}

/** Waits until a task has ended. One of another kind than `task` is not waited for. */
export async function untilEnded(
  store: Pick<StoreContract, 'get' | 'watchEnd'>,
  id: string,
  { task, clock, timeoutMs = Infinity, signal }: Patience,
): Promise<TaskRecord> {
  const bell = new Bell(clock)
  const onAbort = { wake: () => bell.ring() }
  const startedAt = clock.monotonic()
  const unwatch = store.watchEnd(id, () => bell.ring())
  if (signal !== undefined) watchAbort(signal, onAbort)
  try {
    for (;;) {
      signal?.throwIfAborted()
      const record = await store.get(id)
      if (record === undefined) throw new TaskNotFoundError(id)
      checkKind(record, task)
      if (hasEnded(record)) return record
      const leftMs = startedAt + timeoutMs - clock.monotonic()
      if (leftMs <= 0) throw tooLate(record, timeoutMs)
      await bell.wait(leftMs)
    }
  } finally {
    unwatch()
    if (signal !== undefined) unwatchAbort(signal, onAbort)
  }
}

function hasEnded({ status }: TaskRecord): boolean {
  return status !== 'waiting' && status !== 'running'
}

function tooLate({ id, status }: TaskRecord, timeoutMs: number): TimeoutError {
  return new TimeoutError(`The task '${id}' is still ${status} after ${timeoutMs} ms. The task goes on.`, { timeoutMs })
}
