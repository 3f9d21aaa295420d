import type { Clock } from '../../time/index.js'
import type { Lane } from '../contract/lane.js'
import type { Enqueued, EnqueueOutcome, NewTask } from '../contract/task.js'
import { taskIds } from '../rules/task-id.js'
import { statusOf } from '../rules/task-state.js'
import { triedForMs } from '../rules/tried-for.js'
import { created, stands } from '../rules/unique.js'
import { Batcher } from './batcher.js'
import { column, columnsJson, evenColumn, textColumn } from './columns.js'
import { type Database, isOutage, LONG } from './database.js'
import type { SqlClient } from './driver.js'
import { costText, Reports } from './outcome-row.js'
import type { Signals } from './signals.js'

/** Enqueues tasks. Concurrent calls share a transaction. */
export class Enqueues {
  readonly #database: Database
  readonly #signals: Signals
  readonly #makeId: () => string
  readonly #batcher = new Batcher<NewTask, Enqueued>(tasks => this.#send(tasks), isOutage)

  constructor(database: Database, signals: Signals, clock: Clock | undefined) {
    this.#database = database
    this.#signals = signals
    const idAt = taskIds()
    this.#makeId = () => idAt(clock?.now() ?? Date.now())
  }

  async enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    if (tasks.length === 0) return []
    const added = await this.#batcher.add(tasks)
    if (added.some(({ isNew }) => isNew)) this.#signals.ring()
    return added
  }

  /** Enqueues within a transaction of the caller's own. */
  async enqueueIn(client: SqlClient, tasks: readonly NewTask[]): Promise<Enqueued[]> {
    if (tasks.length === 0) return []
    const { fn, values, decode } = encode(tasks, this.#makeId)
    const answer = await this.#database.callIn(client, fn, [...values, this.#database.at])
    // Sent when the transaction commits, and only then.
    await client.query('SELECT pg_catalog.pg_notify($1::text, $2::text)', [this.#signals.channel, ''])
    return decode(answer)
  }

  /** Enqueues within a transaction of the store's own. The caller rings after the commit. */
  async enqueueWith(
    call: (fn: string, values: unknown[]) => Promise<unknown>,
    tasks: readonly NewTask[],
  ): Promise<Enqueued[]> {
    if (tasks.length === 0) return []
    const { fn, values, decode } = encode(tasks, this.#makeId)
    return decode(await call(fn, [...values, this.#database.at]))
  }

  /** Resolves when all calls under way have ended. */
  idle(): Promise<void> {
    return this.#batcher.idle()
  }

  async #send(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    const { fn, values, decode } = encode(tasks, this.#makeId)
    return decode(await this.#database.call(fn, [...values, this.#database.at], LONG))
  }
}

/** A call of an SQL function that enqueues: its arguments, but for the time, and the meaning of its answer. */
interface EnqueueCall {
  readonly fn: string
  readonly values: unknown[]
  readonly decode: (answer: unknown) => Enqueued[]
}

function encode(tasks: readonly NewTask[], makeId: () => string): EnqueueCall {
  const [first] = tasks
  return tasks.length === 1 && first !== undefined && isLone(first)
    ? encodeOne(first, makeId)
    : encodeMany(tasks, makeId)
}

/** Whether the functions for a single task have all that it comes with. */
function isLone({ tried, quota, policy }: NewTask): boolean {
  return tried === undefined && quota === undefined && policy === undefined
}

function encodeOne(task: NewTask, makeId: () => string): EnqueueCall {
  const { id = makeId(), kind, category = '', key = '' } = task
  const { priority = null, payload, cost, traceparent = null, unique } = task
  const times = [submittedAt(task) ?? null, runAt(task) ?? null]
  const values = [kind, category, key, id, priority, ...times, payload, costText(cost) ?? null, traceparent]
  const decode = (answer: unknown) => decodeAnswer([{ id }], answer)
  if (unique === undefined) return { fn: 'enqueue_one', values, decode }
  const { conflict, while: scope } = unique
  const asked = [unique.key, scope, withinMs(task) ?? null, conflict, maxWaitMs(task) ?? null]
  return { fn: 'enqueue_unique', values: [...values, ...asked], decode }
}

/** The range of a task's first round, as the SQL function `first_round` has it. */
const FIRST_ROUNDS = 1_000_000_000

interface NumberedLane extends Lane {
  readonly n: number
  quota?: string
}

interface EnqueuedRow {
  readonly id: string
  readonly lane: number
  readonly round: number | undefined
}

/** Gives each task its id, and names each lane once. */
function encodeMany(tasks: readonly NewTask[], makeId: () => string): EnqueueCall {
  const lanes = new Map<string, NumberedLane>()
  let lane: NumberedLane | undefined
  /** Outcomes of first attempts that were made elsewhere. */
  const tried = new Reports()
  const rows = tasks.map((task, n): EnqueuedRow => {
    const { id = makeId(), kind, category = '', key = '' } = task
    // Most tasks have the lane of the one before.
    if (lane === undefined || lane.kind !== kind || lane.category !== category || lane.key !== key) {
      const name = `${kind}\0${category}\0${key}`
      lane = lanes.get(name) ?? { n: lanes.size + 1, kind, category, key }
      lanes.set(name, lane)
    }
    if (task.quota !== undefined) lane.quota = task.quota
    if (task.tried === undefined) return { id, lane: lane.n, round: undefined }
    const round = Math.floor(Math.random() * FIRST_ROUNDS)
    tried.add({ id, ...task.tried }, { n, round })
    return { id, lane: lane.n, round }
  })
  const columns = {
    ids: column(rows, ({ id }) => id),
    lane_numbers: evenColumn(rows, ({ lane }) => lane),
    priorities: column(tasks, ({ priority }) => priority),
    submitted: column(tasks, submittedAt),
    due: column(tasks, runAt),
    costs: column(tasks, ({ cost }) => costText(cost)),
    traceparents: column(tasks, ({ traceparent }) => traceparent),
    policies: column(tasks, ({ policy }) => policy),
    rounds: column(rows, ({ round }) => round),
    tried_for: column(tasks, task => task.tried && triedForMs(task)),
    unique_keys: column(tasks, ({ unique }) => unique?.key),
    unique_whiles: evenColumn(tasks, ({ unique }) => unique?.while),
    withins: column(tasks, withinMs),
    conflicts: evenColumn(tasks, ({ unique }) => unique?.conflict),
    max_waits: column(tasks, maxWaitMs),
    lanes: [...lanes.values()],
    are_new: tasks.every(isPlain),
  }
  const values = [columnsJson(columns, { tried: tried.encode() }), textColumn(tasks, ({ payload }) => payload)]
  return { fn: 'enqueue_batch', values, decode: answer => decodeAnswer(rows, answer) }
}

/** Whether a task gets an id that cannot be taken, and brings no time of its own. */
function isPlain({ id, submittedAt, tried }: NewTask): boolean {
  return id === undefined && submittedAt === undefined && tried === undefined
}

function submittedAt({ submittedAt }: NewTask): number | undefined {
  return submittedAt && Math.floor(submittedAt)
}

function runAt({ runAt }: NewTask): number | undefined {
  return runAt && Math.ceil(runAt)
}

function withinMs({ unique }: NewTask): number | undefined {
  return unique?.withinMs === undefined ? undefined : Math.ceil(unique.withinMs)
}

function maxWaitMs({ unique }: NewTask): number | undefined {
  return unique?.maxWaitMs === undefined ? undefined : Math.ceil(unique.maxWaitMs)
}

/** What became of a task that was not just created. `n` is its position, from 1. */
interface EnqueuedNote {
  readonly n: number
  readonly id: string
  readonly outcome: EnqueueOutcome
  readonly state?: number | null
  readonly since?: number | null
}

/** All of them were created, or the answer says what became of the others. */
function decodeAnswer(rows: readonly { readonly id: string }[], answer: unknown): Enqueued[] {
  const enqueued = rows.map(({ id }) => created(id))
  if (typeof answer !== 'string') return enqueued
  for (const { n, id, outcome, state, since } of JSON.parse(answer) as readonly EnqueuedNote[]) {
    const isThere = typeof state === 'number' && typeof since === 'number'
    enqueued[n - 1] =
      outcome === 'kept' || outcome === 'postponed'
        ? stands(id, outcome, isThere ? { status: statusOf(state), since } : undefined)
        : { id, isNew: true, outcome }
  }
  return enqueued
}
