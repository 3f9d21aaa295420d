import { OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { NewTask, TaskStatus } from '../store/index.js'
import { addedId, type BatchEndTask, type BatchStatus, checkBatchName, type StoreContract } from '../store/internal.js'
import type { DeclaredTask } from './declare-task.js'
import { checkMadeByStore } from './made-by-store.js'
import { payloadJson } from './payload-json.js'
import type { EnqueueOptions, TaskQueue } from './task-queue.js'

/** A task of a batch: its payload, and options of `enqueue()`. Its id is given by the batch, and it has no unique key. */
export type BatchItem<P> = Omit<EnqueueOptions, 'id' | 'unique'> & { readonly payload: P }

/** Tasks of a batch: a list, or anything that is iterated over, such as the rows of a query. */
export type BatchItems<P> = Iterable<BatchItem<P>> | AsyncIterable<BatchItem<P>>

/** Options of `enqueueBatch()`. @inline */
export interface BatchOptions {
  /** A task to enqueue in the transaction that ends the batch. Its payload is a `BatchEnd`. */
  readonly onEnd?: OnBatchEnd | undefined
}

/** The task that follows the end of a batch. @inline */
export interface OnBatchEnd {
  /** A task that takes a `BatchEnd`. */
  readonly task: DeclaredTask<unknown, unknown, BatchEnd>
  /** The category of the task. Default: none. */
  readonly category?: string | undefined
  /** The key of its lane. Default: none. */
  readonly key?: string | undefined
  /** Goes with it, as plain data. */
  readonly payload?: unknown
}

/** The payload of the task that follows the end of a batch. */
export interface BatchEnd {
  /** The name of the batch. */
  readonly batch: string
  /** `completed`: all its tasks succeeded or were skipped. `failed`: none did. Otherwise a `partial_success`. */
  readonly status: Extract<BatchStatus, 'completed' | 'partial_success' | 'failed'>
  /** Its tasks by status. */
  readonly counts: Readonly<Record<Exclude<TaskStatus, 'waiting' | 'running'>, number>>
  /** How often it has ended by now: more than once if dead letters of it were redriven. */
  readonly ending: number
  /** The payload given with `onEnd`. */
  readonly payload?: unknown
}

/** The answer to `enqueueBatch()`. */
export interface EnqueuedBatch {
  /** Its name. */
  readonly name: string
  /** How many tasks were added. */
  readonly added: number
  /** Whether this call has completed it. `false`: it had all its tasks before, and nothing has changed. */
  readonly isNew: boolean
}

/** The batch that a running task belongs to. */
export interface TaskBatch {
  /** Its name. */
  readonly name: string
  /**
   * Adds tasks to it, in transactions of a thousand. They are numbered in the order in which this attempt adds them, so an
   * attempt that is repeated adds none twice, provided that it adds them in the same order.
   */
  add<P>(task: DeclaredTask<unknown, unknown, P>, items: BatchItems<NoInfer<P>>): Promise<number>
}

const BATCH_OPTIONS: KnownOptions<BatchOptions> = { onEnd: 'object' }
const ON_END: KnownOptions<OnBatchEnd> = { task: 'object', category: '', key: '', payload: '' }

/** Tasks that are added in one transaction. */
const CHUNK = 1000

type Prepare<P> = (item: BatchItem<P>) => Promise<NewTask>

/** Adds the tasks of a batch, chunk by chunk. */
export async function fillBatch<P>(
  store: StoreContract,
  name: string,
  items: BatchItems<P>,
  prepare: Prepare<P>,
  options: BatchOptions,
): Promise<EnqueuedBatch> {
  checkBatchName(name)
  checkOptions('enqueueBatch()', options, BATCH_OPTIONS)
  const onEnd = options.onEnd && endTask(options.onEnd)
  let [position, added] = [0, 0]
  for await (const { chunk, isLast } of chunksOf(items)) {
    const tasks = await Promise.all(chunk.map(prepare))
    const filled = await store.batches.fill(name, { position, tasks, isEnd: isLast, onEnd })
    if (filled.isFull) return { name, added, isNew: false }
    position += chunk.length
    added += filled.added
  }
  return { name, added, isNew: true }
}

/** The batch of a member that runs. */
export function taskBatch(name: string, id: string, store: StoreContract, queue: TaskQueue): TaskBatch {
  let count = 0
  return {
    name,
    async add(task, items) {
      let added = 0
      for await (const { chunk } of chunksOf(items)) {
        const first = count + 1
        count += chunk.length
        const tasks = await Promise.all(chunk.map(item => prepared(queue, task, item)))
        const members = tasks.map((member, n) => ({ ...member, id: addedId(id, first + n) }))
        added += (await store.batches.grow(name, members)).added
      }
      return added
    },
  }
}

/** A member as a store takes it, but for its id. */
export function prepared<P>(
  queue: TaskQueue,
  task: DeclaredTask<unknown, unknown, P>,
  item: BatchItem<P>,
): Promise<NewTask> {
  const { payload, ...options } = item
  if ('id' in options && options.id !== undefined)
    throw new OptionError('id', "A task of a batch has no 'id' of its own: the batch numbers its tasks.")
  return queue.prepare(task, payload, options)
}

function endTask(onEnd: OnBatchEnd): BatchEndTask {
  checkOptions("'onEnd' of enqueueBatch()", onEnd, ON_END)
  const { task, category, key, payload } = onEnd
  if (typeof task?.kind !== 'string')
    throw new OptionError('onEnd', "'onEnd' needs a 'task', as declareTask() or defineTask() returns it.")
  checkMadeByStore('onEnd', task)
  return { kind: task.kind, category, key, payload: payloadJson(task.kind, payload) }
}

/** Parts of a list of any length. There is a last one, which may be empty. */
async function* chunksOf<T>(
  items: Iterable<T> | AsyncIterable<T>,
): AsyncGenerator<{ readonly chunk: readonly T[]; readonly isLast: boolean }> {
  let chunk: T[] = []
  for await (const item of items) {
    if (chunk.length === CHUNK) {
      yield { chunk, isLast: false }
      chunk = []
    }
    chunk.push(item)
  }
  yield { chunk, isLast: true }
}
