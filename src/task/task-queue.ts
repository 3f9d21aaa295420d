import { activeTraceparent } from '../attempt/index.js'
import { decodedRow, leniently, toMs } from '../engine/internal.js'
import { type Duration, OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../policy/internal.js'
import type { By, Enqueued, LedgerRow, NewTask, Page, Store, TaskFilter } from '../store/index.js'
import {
  type AttemptTraces,
  attemptTraces,
  type Cost,
  contractOf,
  recordRedrive,
  type StoreContract,
  type TwinRule,
} from '../store/internal.js'
import { type Clock, parseMoment, systemClock } from '../time/index.js'
import { type BatchItems, type BatchOptions, type EnqueuedBatch, fillBatch, prepared } from './batches.js'
import type { DeclaredTask } from './declare-task.js'
import { PayloadError } from './errors.js'
import { type OwnPolicy, ownPolicy } from './own-policy.js'
import { payloadJson } from './payload-json.js'
import { validate } from './standard-schema.js'
import { resultOf, type Task, taskOf, untilEnded } from './task-result.js'
import { type TaskUnique, toUniqueKey } from './task-unique.js'

/**
 * A point in time: a date, milliseconds since the epoch, or ISO 8601 text with its time zone, such as
 * `2030-03-10T08:00:00Z`. A day alone, such as `2030-03-10`, is its first moment in UTC.
 */
export type Moment = Date | number | string

/** Options for enqueueing a task. */
export interface EnqueueOptions {
  /** Your own id, for deduplication: a second task with the same id changes nothing, for as long as the first is on record. */
  readonly id?: string | undefined
  /** Part of the lane. A worker can be limited to some categories. */
  readonly category?: string | undefined
  /** The lane's key: a tenant, an account, a host. Lanes with a key take turns. */
  readonly key?: string | undefined
  /**
   * The quota under which its lane runs, such as an account: all lanes with the same one share what `limits.quota` of the
   * task allows. Needs a key. Default: the lane stays under the quota that it has.
   */
  readonly quota?: string | undefined
  /** Higher goes first. Default 0. */
  readonly priority?: number | undefined
  /** The earliest time to run it. */
  readonly runAt?: Moment | undefined
  /** The time to wait before it runs. */
  readonly delay?: Duration | undefined
  /** A key that at most one task of its kind may have within a scope. Default: the one that the task is defined with. */
  readonly unique?: TaskUnique | undefined
  /**
   * Fields of its policy that are its own: those that the kind's `policyMax` allows, up to the maxima given there. They lie
   * over the policy of the kind.
   */
  readonly policy?: OwnPolicy | undefined
  /** How much it takes from each bucket of the task's `limits`, by the bucket's name. Default: 1 from each. */
  readonly cost?: Cost | undefined
  /** The time it counts as submitted: among tasks of equal priority, the oldest goes first. Default: now. */
  readonly submittedAt?: Moment | undefined
}

/** Options of `get`. */
export interface TaskGetOptions<Input = unknown, Output = unknown> {
  /** The kind of task that it is: its types are those of the answer, and its schema validates the result. */
  readonly task?: DeclaredTask<unknown, unknown, Input, Output> | undefined
}

/** Options of `result`. @inline */
export interface TaskResultOptions<Output = unknown> {
  /** The kind of task that it is: its result type is that of the answer, and its schema validates the result. */
  readonly task?: DeclaredTask<unknown, unknown, unknown, Output> | undefined
  /** How long to wait for the end of the task. Default: for as long as it takes. */
  readonly timeout?: Duration | undefined
  /** Stops waiting. The task goes on. */
  readonly signal?: AbortSignal | undefined
}

/** Options of a `TaskQueue`. @inline */
export interface TaskQueueOptions {
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock | undefined
}

/** A dead letter with its whole history. */
export interface DeadLetter<Payload = unknown, Result = unknown> extends Task<Payload, Result> {
  /** Its ledger, oldest first. */
  readonly history: readonly LedgerRow[]
  /** The ids of the traces of its first and its last attempt; `undefined` if none was traced. */
  readonly traces: AttemptTraces | undefined
}

/** A task that takes payloads of type `P`, whatever its handler receives. */
type TaskFor<P> = DeclaredTask<unknown, unknown, P>

const ENQUEUE_OPTIONS: KnownOptions<EnqueueOptions> = {
  id: '',
  category: '',
  key: '',
  quota: '',
  priority: '',
  runAt: '',
  delay: '',
  unique: 'object',
  policy: 'object',
  cost: '',
  submittedAt: '',
}
const GET_OPTIONS: KnownOptions<TaskGetOptions> = { task: 'object' }
const RESULT_OPTIONS: KnownOptions<TaskResultOptions> = { task: 'object', timeout: '', signal: 'object' }
const QUEUE_OPTIONS: KnownOptions<TaskQueueOptions> = { clock: 'object' }
const ITEM_FIELDS: KnownOptions<EnqueueOptions & { payload: unknown }> = { ...ENQUEUE_OPTIONS, payload: '' }

/** The latest date that JavaScript can hold, in milliseconds since the epoch. */
const MAX_TIME = 8.64e15

/** Enqueues tasks into a store, waits for their results, and reads, cancels and redrives them. */
export class TaskQueue {
  readonly #store: StoreContract
  readonly #clock: Clock

  constructor(store: Store, options: TaskQueueOptions = {}) {
    checkOptions('A task queue', options, QUEUE_OPTIONS)
    this.#store = contractOf(store)
    this.#clock = options.clock ?? systemClock
  }

  /** Enqueues a task. Resolves once it is on disk. */
  async enqueue<P>(task: TaskFor<P>, payload: NoInfer<P>, options: EnqueueOptions = {}): Promise<Enqueued> {
    const [enqueued] = await this.#store.enqueue([await this.prepare(task, payload, options)])
    return enqueued as Enqueued
  }

  /** Enqueues many tasks in one transaction: all of them or none. */
  async enqueueMany<P>(
    task: TaskFor<P>,
    items: readonly (EnqueueOptions & { readonly payload: NoInfer<P> })[],
  ): Promise<Enqueued[]> {
    for (const item of items) checkOptions('An item of enqueueMany()', item, ITEM_FIELDS)
    // A promise for each item would cost more than all the rest.
    const isPlain = task.schema === undefined && items.every(({ delay }) => delay === undefined)
    return this.#store.enqueue(
      isPlain ? plainTasks(task, items) : await Promise.all(items.map(item => this.#prepare(task, item.payload, item))),
    )
  }

  /**
   * Enqueues tasks that end together: a task follows once the last of them has ended, with how they ended. They are read and
   * added a thousand at a time, each thousand in one transaction, and run meanwhile.
   *
   * ```ts
   * await queue.enqueueBatch('newsletter-42', sendEmail, readers, { onEnd: { task: tellEditor } })
   * ```
   *
   * Where it fails halfway, or its process dies, call it again with the same tasks: it goes on where it was. A batch that has
   * all its tasks stays as it is, and `isNew` is false.
   */
  async enqueueBatch<P>(
    name: string,
    task: TaskFor<P>,
    items: BatchItems<NoInfer<P>>,
    options: BatchOptions = {},
  ): Promise<EnqueuedBatch> {
    return fillBatch(this.#store, name, items, item => prepared(this, task, item), options)
  }

  /**
   * Checks the payload and returns the task as a store takes it, for `store.enqueueIn` in a transaction of your own.
   *
   * ```ts
   * const receipt = await queue.prepare(sendReceipt, { order: 42 })
   * await store.transaction(tx => store.enqueueIn(tx, [receipt]))
   * ```
   */
  async prepare<P>(task: TaskFor<P>, payload: NoInfer<P>, options: EnqueueOptions = {}): Promise<NewTask> {
    checkOptions('enqueue()', options, ENQUEUE_OPTIONS)
    return this.#prepare(task, payload, options)
  }

  async #prepare<P>(task: TaskFor<P>, payload: P, options: EnqueueOptions): Promise<NewTask> {
    const { runAt, delay } = options
    // Before anything is awaited: the span that is active now is the one that enqueues.
    const traceparent = activeTraceparent()
    if (runAt !== undefined && delay !== undefined) {
      throw new OptionError('delay', `A task runs at 'runAt' or after 'delay', not both.`)
    }
    if (task.schema !== undefined) {
      const result = await validate(task.schema, payload)
      if ('problem' in result) throw new PayloadError(task.kind, result.problem)
    }
    const at = delay === undefined ? toTime('runAt', runAt) : (await this.#store.now()) + toMs('delay', delay)
    return newTask(task, payload, options, { runAt: at, traceparent })
  }

  /**
   * A task, whatever its status; `undefined` if there is none with that id. With its `task`, it has the types of that, and is
   * decoded if that has a codec; a task of another kind is a `TaskKindError`.
   */
  async get<Input = unknown, Output = unknown>(
    id: string,
    options: TaskGetOptions<Input, Output> = {},
  ): Promise<Task<Input, Output> | undefined> {
    checkOptions('get()', options, GET_OPTIONS)
    const record = await this.#store.get(id)
    return record && taskOf(record, options.task)
  }

  /**
   * Waits until a task has succeeded, and resolves with its result. The store notifies it when the task ends, in
   * whichever process that runs.
   *
   * ```ts
   * const { id } = await queue.enqueue(resize, { image: 'cat.png', width: 200 })
   * const { url } = await queue.result(id, { task: resize, timeout: '30s' })
   * ```
   *
   * Rejects with a `TaskNotSucceededError` if the task ends as dead, cancelled or skipped, with a `TaskNotFoundError` if
   * there is none with that id, with a `TaskKindError` if it is not a `task`, with a `TimeoutError` when the time is up, and
   * with the signal's reason when that aborts. In the last two cases the task goes on.
   */
  async result<Output = unknown>(id: string, options: TaskResultOptions<Output> = {}): Promise<Output> {
    checkOptions('result()', options, RESULT_OPTIONS)
    const { task, timeout, signal } = options
    const timeoutMs = timeout === undefined ? undefined : toMs('timeout', timeout)
    return resultOf(await untilEnded(this.#store, id, { task, clock: this.#clock, timeoutMs, signal }), task)
  }

  /** Tasks, newest change first: 50 a page, unless `limit` says otherwise. */
  async list(
    filter: TaskFilter = {},
    page: { readonly limit?: number | undefined; readonly after?: string | undefined } = {},
  ): Promise<Page<Task>> {
    const { items, ...rest } = await this.#store.list(filter, { ...page, limit: page.limit ?? 50 })
    return { items: await Promise.all(items.map(item => taskOf(item))), ...rest }
  }

  /** The dead letters, newest first: 50 a page, unless `limit` says otherwise. */
  deadLetters(
    filter: Omit<TaskFilter, 'status'> = {},
    page: { readonly limit?: number | undefined; readonly after?: string | undefined } = {},
  ): Promise<Page<Task>> {
    return this.list({ ...filter, status: 'dead' }, page)
  }

  /**
   * A dead letter with its whole history; `undefined` if there is none with that id. With its `task`, it has the types of that,
   * and is decoded if that has a codec.
   */
  async deadLetter<Input = unknown, Output = unknown>(
    id: string,
    options: TaskGetOptions<Input, Output> = {},
  ): Promise<DeadLetter<Input, Output> | undefined> {
    checkOptions('deadLetter()', options, GET_OPTIONS)
    const { codec } = options.task ?? {}
    const record = await this.#store.get(id)
    if (record?.status !== 'dead') return undefined
    const rows = await this.#store.ledger(id)
    const history =
      codec === undefined
        ? rows
        : rows.map(row =>
            decodedRow(
              row,
              id,
              codec,
              leniently(codec, () => {}),
            ),
          )
    return { ...(await taskOf(record, options.task)), history, traces: attemptTraces(history) }
  }

  /**
   * Gives dead letters fresh attempts, in one transaction and on record; their history stays. Returns the ids that were
   * moved. A letter whose unique key another task has by now is left alone, unless `twin` says otherwise. To redrive by filter, at a rate or with a way to stop, use `redriveDeadLetters` of `redrive/operate`.
   */
  redrive(
    ids: string | readonly string[],
    by: By,
    options: { readonly twin?: TwinRule } = {},
  ): Promise<readonly string[]> {
    checkOptions('redrive()', options, { twin: '' })
    const named = [...new Set(typeof ids === 'string' ? [ids] : ids)]
    return recordRedrive(this.#store, named, by, async moved => {
      moved.push(...(await this.#store.redrive(named, by, options)))
      return 'complete'
    })
  }

  /**
   * Cancels waiting tasks, and aborts the signal of running ones. Returns their ids, without those that somebody had asked to
   * end before. With `by`, the ledgers of the tasks and the audit log record who asked, and why: `store.audit.page()`.
   */
  cancel(ids: string | readonly string[], by?: By): Promise<string[]> {
    return this.#store.cancel(typeof ids === 'string' ? [ids] : ids, by)
  }
}

/** Tasks that have nothing to wait for: neither a schema nor the clock of the store. */
function plainTasks<P>(task: TaskFor<P>, items: readonly (EnqueueOptions & { readonly payload: P })[]): NewTask[] {
  const traceparent = activeTraceparent()
  return items.map(item => newTask(task, item.payload, item, { runAt: toTime('runAt', item.runAt), traceparent }))
}

/** A task as a store takes it. Its payload has been validated. */
function newTask<P>(
  task: TaskFor<P>,
  payload: P,
  { id, category, key, quota, priority, unique, policy, cost, submittedAt }: EnqueueOptions,
  { runAt, traceparent }: Pick<NewTask, 'runAt' | 'traceparent'>,
): NewTask {
  if (typeof task.kind !== 'string')
    throw new OptionError('task', 'A task is what declareTask() or defineTask() returns.')
  return {
    id,
    kind: task.kind,
    category,
    key,
    ...(quota !== undefined && { quota }),
    priority: checkedPriority(priority),
    cost,
    traceparent,
    payload: storedPayload(task, payload),
    submittedAt: toTime('submittedAt', submittedAt),
    runAt,
    ...(policy !== undefined && ownPolicy(task, policy)),
    unique: unique === undefined ? task.uniqueOf?.(payload) : toUniqueKey(unique),
  }
}

/** The payload of a new task as its store keeps it. */
function storedPayload({ kind, codec }: Pick<DeclaredTask, 'kind' | 'codec'>, payload: unknown): string {
  const json = payloadJson(kind, payload)
  return codec === undefined ? json : codec.encode(json, 'payload', '')
}

/** Checks a priority. */
export function checkedPriority(priority: number | undefined): number | undefined {
  if (priority === undefined || Number.isFinite(priority)) return priority
  throw new OptionError('priority', `'priority' must be a number, got ${priority}.`)
}

/** The milliseconds of a moment. */
export function toTime(option: string, moment: Moment | undefined): number | undefined {
  if (moment === undefined) return undefined
  const time = typeof moment === 'string' ? parseMoment(moment) : Number(moment)
  if (time !== undefined && Number.isInteger(time) && Math.abs(time) <= MAX_TIME) return time
  const example = 'ISO text with a time zone, such as 2030-03-10T08:00:00Z'
  throw new OptionError(
    option,
    `'${option}' must be a date, milliseconds since the epoch, or ${example}, got ${quoted(String(moment))}.`,
  )
}
