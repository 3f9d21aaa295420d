import type { TaskRecord, TaskStatus } from './task.js'

/**
 * A part of a payload: an object, or its JSON text, whose numbers are kept as they are written. A payload contains it if it
 * has at least these fields; of an array at least these elements, in any order; and anything else is equal.
 */
export type PayloadPart = Readonly<Record<string, unknown>> | string

/** Which tasks to list: newest change first, then the higher id. An absent field matches everything. */
export interface TaskFilter {
  /** The name given to `defineTask`. */
  readonly kind?: string
  /** The category of the lane. */
  readonly category?: string
  /** The key of the lane. */
  readonly key?: string
  /** Where the task is in its life. */
  readonly status?: TaskStatus
  /** The code of the last verdict, such as `http_502`. */
  readonly errorCode?: string
  /** The group of the last failure. */
  readonly group?: string
  /** The unique key that the task was enqueued with, whether or not it still has it. For lists and counts of tasks only. */
  readonly unique?: string
  /** A part of the payload. Payloads have no index: a page of a list looks at 10 000 tasks at most, and a count at all. */
  readonly where?: PayloadPart
}

/** A field that tasks are counted by. */
export type CountField = 'kind' | 'category' | 'key' | 'status' | 'errorCode' | 'reason' | 'group'

/** The number of tasks that agree in the fields that they are counted by. A field without a value is absent. */
export interface TaskCount extends Partial<Pick<TaskRecord, CountField>> {
  /** How many there are. */
  readonly count: number
}

/** The page of a list to return. */
export interface PageRequest {
  /** The maximum number of items. */
  readonly limit: number
  /** The `next` of the previous page, from the same store. Anything else is an `OptionError`. */
  readonly after?: string
}

/** A page of a list. Pages are found by key, so the last page costs no more than the first. */
export interface Page<T> {
  /** The items of this page. */
  readonly items: readonly T[]
  /** Pass it as `after` to get the next page. Absent on the last page. */
  readonly next?: string
  /** How many tasks this page looked at, if the filter has a `where`. It may end before it has found as many as it may have. */
  readonly searched?: number
}

/** The work of a store, in figures. */
export interface StoreStats {
  /** The store's clock. */
  readonly now: number
  /** Workers whose lease has not expired, without notifiers: those whose kinds all begin with `notify:`. */
  readonly workers: number
  /** One entry for each kind and category of its tasks, also after the last one has ended. */
  readonly kinds: readonly KindStats[]
}

/** The tasks of one kind and category, in figures. */
export interface KindStats {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** The category; empty if there is none. */
  readonly category: string
  /** Tasks that wait, whatever they wait for. */
  readonly waiting: number
  /** Of those, tasks in lanes that are paused. */
  readonly paused: number
  /** Of those, tasks in lanes that are held by a rate limit, by an open gate or by the head of an ordered lane, which may be a dead letter, and not paused. */
  readonly held: number
  /** Of those, retries that are due and held by their retry budget, in lanes that are neither paused nor held. About 10 000 are counted at most. */
  readonly budgeted: number
  /** Of those, tasks that are ready: see `StatsBook`. About 10 000 are counted at most. */
  readonly ready: number
  /** Of those, tasks that are due, but behind others in an ordered lane, or beyond a concurrency or a rate. Counted like `ready`. */
  readonly limited: number
  /** When the task that has been ready for longest became due; `undefined` if none is ready. */
  readonly readySince: number | undefined
  /** Tasks that run. */
  readonly running: number
  /** Dead letters. */
  readonly dead: number
}
