import { type Duration, OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions, plainJson, problemOf } from '../policy/internal.js'
import type { By, Enqueued, LedgerRow, NewTask, Page, Store, TaskFilter, TaskRecord } from '../store/index.js'
import { recordRedrive } from '../store/internal.js'
import type { DeclaredTask } from './declare-task.js'
import { PayloadError } from './errors.js'
import { validate } from './standard-schema.js'
import { toMs } from './to-ms.js'

/** A point in time: a date, milliseconds since the epoch, or ISO 8601 text. */
export type Moment = Date | number | string

/** Options for enqueueing a task. */
export interface EnqueueOptions {
  /** Your own id, for deduplication: a second task with the same id changes nothing, and `isNew` is false. */
  readonly id?: string | undefined
  /** Part of the lane. A worker can be limited to some categories. */
  readonly category?: string | undefined
  /** The lane's key: a tenant, an account, a host. Lanes with a key take turns. */
  readonly key?: string | undefined
  /** Higher goes first. Default 0. */
  readonly priority?: number | undefined
  /** The earliest time to run it. */
  readonly runAt?: Moment | undefined
  /** The time to wait before it runs. */
  readonly delay?: Duration | undefined
  /** The time it counts as submitted: among tasks of equal priority, the oldest goes first. Default: now. */
  readonly submittedAt?: Moment | undefined
}

/** A dead letter with its whole history. */
export interface DeadLetter extends TaskRecord {
  /** Its ledger, oldest first. */
  readonly history: readonly LedgerRow[]
}

/** A task that takes payloads of type `P`, whatever its handler receives. */
type TaskFor<P> = DeclaredTask<unknown, unknown, P>

const ENQUEUE_OPTIONS: KnownOptions<EnqueueOptions> = {
  id: '',
  category: '',
  key: '',
  priority: '',
  runAt: '',
  delay: '',
  submittedAt: '',
}
const ITEM_FIELDS: KnownOptions<EnqueueOptions & { payload: unknown }> = { ...ENQUEUE_OPTIONS, payload: '' }

/** Longer payloads belong in a file or a table, with a reference to it in the task. */
const MAX_PAYLOAD = 2 ** 20

/** The latest date that JavaScript can hold, in milliseconds since the epoch. */
const MAX_TIME = 8.64e15

/** Enqueues tasks into a store, and reads, cancels and redrives them. */
export class TaskQueue {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
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
    return this.#store.enqueue(await Promise.all(items.map(item => this.#prepare(task, item.payload, item))))
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
    if (typeof task.kind !== 'string')
      throw new OptionError('task', 'A task is what declareTask() or defineTask() returns.')
    const { id, category, key, priority, runAt, delay, submittedAt } = options
    if (runAt !== undefined && delay !== undefined) {
      throw new OptionError('delay', `A task runs at 'runAt' or after 'delay', not both.`)
    }
    if (task.schema !== undefined) {
      const result = await validate(task.schema, payload)
      if ('problem' in result) throw new PayloadError(task.kind, result.problem)
    }
    return {
      id,
      kind: task.kind,
      category,
      key,
      priority: checkedPriority(priority),
      payload: toJson(task.kind, payload),
      submittedAt: toTime('submittedAt', submittedAt),
      runAt: delay === undefined ? toTime('runAt', runAt) : (await this.#store.now()) + toMs('delay', delay),
    }
  }

  /** A task, whatever its status; `undefined` if there is none with that id. */
  get(id: string): Promise<TaskRecord | undefined> {
    return this.#store.get(id)
  }

  /** Tasks, newest change first: 50 a page, unless `limit` says otherwise. */
  list(
    filter: TaskFilter = {},
    page: { readonly limit?: number | undefined; readonly after?: string | undefined } = {},
  ): Promise<Page<TaskRecord>> {
    return this.#store.list(filter, { ...page, limit: page.limit ?? 50 })
  }

  /** The dead letters, newest first: 50 a page, unless `limit` says otherwise. */
  deadLetters(
    filter: Omit<TaskFilter, 'status'> = {},
    page: { readonly limit?: number | undefined; readonly after?: string | undefined } = {},
  ): Promise<Page<TaskRecord>> {
    return this.list({ ...filter, status: 'dead' }, page)
  }

  /** A dead letter with its whole history; `undefined` if there is none with that id. */
  async deadLetter(id: string): Promise<DeadLetter | undefined> {
    const task = await this.#store.get(id)
    return task?.status === 'dead' ? { ...task, history: await this.#store.ledger(id) } : undefined
  }

  /**
   * Gives dead letters fresh attempts, in one transaction and on record; their history stays. Returns the ids that were
   * moved. To redrive by filter, at a rate or with a way to stop, use `redriveDeadLetters` of `redrive/operate`.
   */
  redrive(ids: string | readonly string[], by: By): Promise<readonly string[]> {
    const named = [...new Set(typeof ids === 'string' ? [ids] : ids)]
    return recordRedrive(this.#store, { named: named.length }, by, async moved => {
      moved.push(...(await this.#store.redrive(named, by)))
      return 'complete'
    })
  }

  /**
   * Ends waiting tasks, and asks running ones to end. Returns the ids that have ended or will end. With `by`, the audit
   * log of the store records who asked, and why: `store.audit.page()`.
   */
  cancel(ids: string | readonly string[], by?: By): Promise<string[]> {
    return this.#store.cancel(typeof ids === 'string' ? [ids] : ids, by)
  }
}

function toJson(kind: string, payload: unknown): string {
  let json: string | undefined
  try {
    json = plainJson(payload)
  } catch (error) {
    throw new PayloadError(kind, problemOf(error))
  }
  if (json === undefined) return 'null'
  if (json.length > MAX_PAYLOAD)
    throw new PayloadError(kind, `it is ${json.length} characters long, and ${MAX_PAYLOAD} are allowed`)
  return json
}

function checkedPriority(priority: number | undefined): number | undefined {
  if (priority === undefined || Number.isFinite(priority)) return priority
  throw new OptionError('priority', `'priority' must be a number, got ${priority}.`)
}

function toTime(option: string, moment: Moment | undefined): number | undefined {
  if (moment === undefined) return undefined
  const time = typeof moment === 'string' ? Date.parse(moment) : Number(moment)
  if (Number.isInteger(time) && Math.abs(time) <= MAX_TIME) return time
  throw new OptionError(
    option,
    `'${option}' must be a date, milliseconds since the epoch or ISO text, got ${String(moment)}.`,
  )
}
