import { type Duration, OptionError } from '../policy/index.js'
import { plainJson, problemOf } from '../policy/internal.js'
import type { By, Enqueued, LedgerRow, NewTask, Page, Store, TaskFilter, TaskRecord } from '../store/index.js'
import type { TaskDefinition } from './define-task.js'
import { PayloadError } from './errors.js'
import { redriveDeadLetters } from './redrive.js'
import { validate } from './standard-schema.js'
import { toMs } from './to-ms.js'

/** A moment: a date, milliseconds since the epoch, or ISO text. */
export type Moment = Date | number | string

/** How a task is to be enqueued. */
export interface EnqueueOptions {
  /** Your own id: a second task with the same one changes nothing, and says so. */
  readonly id?: string
  /** A part of the lane. Workers can be told which categories to run. */
  readonly category?: string
  /** The lane's key: a tenant, an account, a host. Lanes take turns. */
  readonly key?: string
  /** Higher goes first. Default 0. */
  readonly priority?: number
  /** Not before then. */
  readonly runAt?: Moment
  /** Not before this time has passed. */
  readonly delay?: Duration
  /** When it counts as submitted: among equals, the oldest goes first. Default: now. */
  readonly submittedAt?: Moment
}

/** A dead letter with its whole history. */
export interface DeadLetter extends TaskRecord {
  /** Its rows of the ledger, oldest first. */
  readonly history: readonly LedgerRow[]
}

/** A kind of task that takes such payloads, whatever its handler gets. */
type TaskFor<P> = TaskDefinition<unknown, unknown, P>

/** A longer payload belongs into a file or a table of its own, and its name into the task. */
const MAX_PAYLOAD = 2 ** 20

/** No date is further from the epoch, in milliseconds. */
const MAX_TIME = 8.64e15

/** Puts tasks into a store, and shows what became of them. */
export class TaskQueue {
  constructor(private readonly store: Store) {}

  /** Resolves once the task is on disk. */
  async enqueue<P>(task: TaskFor<P>, payload: NoInfer<P>, options: EnqueueOptions = {}): Promise<Enqueued> {
    const [enqueued] = await this.enqueueMany(task, [{ ...options, payload }])
    return enqueued as Enqueued
  }

  /** Enqueues many in one transaction: all of them or none. */
  async enqueueMany<P>(
    task: TaskFor<P>,
    items: readonly (EnqueueOptions & { readonly payload: NoInfer<P> })[],
  ): Promise<Enqueued[]> {
    return this.store.enqueue(await Promise.all(items.map(item => this.prepare(task, item.payload, item))))
  }

  /**
   * A task as a store takes it, its payload checked: for `store.enqueueIn`, in a transaction of your own.
   *
   * ```ts
   * const receipt = await queue.prepare(sendReceipt, { order: 42 })
   * await store.enqueueIn(client, [receipt])
   * ```
   */
  async prepare<P>(task: TaskFor<P>, payload: NoInfer<P>, options: EnqueueOptions = {}): Promise<NewTask> {
    if (typeof task.kind !== 'string') throw new OptionError('task', 'A task is what defineTask() returns.')
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
      runAt: delay === undefined ? toTime('runAt', runAt) : (await this.store.now()) + toMs('delay', delay),
    }
  }

  /** A task, whatever its status; `undefined` if there is none of that id. */
  get(id: string): Promise<TaskRecord | undefined> {
    return this.store.get(id)
  }

  /** Tasks, newest change first. */
  list(
    filter: TaskFilter = {},
    page: { readonly limit?: number; readonly after?: string } = {},
  ): Promise<Page<TaskRecord>> {
    return this.store.list(filter, { ...page, limit: page.limit ?? 50 })
  }

  /** The dead letters, newest first. */
  deadLetters(
    filter: Omit<TaskFilter, 'status'> = {},
    page: { readonly limit?: number; readonly after?: string } = {},
  ): Promise<Page<TaskRecord>> {
    return this.list({ ...filter, status: 'dead' }, page)
  }

  /** A dead letter with its whole history; `undefined` if there is none of that id. */
  async deadLetter(id: string): Promise<DeadLetter | undefined> {
    const task = await this.store.get(id)
    return task?.status === 'dead' ? { ...task, history: await this.store.ledger(id) } : undefined
  }

  /** Gives dead letters fresh attempts; their history stays. Returns the ids of those that were moved. */
  async redrive(
    ids: string | readonly string[],
    by: { readonly who: string; readonly why?: string },
  ): Promise<readonly string[]> {
    const redriven = await redriveDeadLetters(this.store, { ids: typeof ids === 'string' ? [ids] : ids }, by)
    return redriven.ids
  }

  /**
   * Ends waiting tasks, and asks running ones to end. Returns the ids that have ended or will end. With `by`, the audit log
   * records who asked, and why.
   */
  cancel(ids: string | readonly string[], by?: By): Promise<string[]> {
    return this.store.cancel(typeof ids === 'string' ? [ids] : ids, by)
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
