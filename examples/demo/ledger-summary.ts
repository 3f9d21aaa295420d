import type { LedgerRow, Store, TaskRecord, TaskStatus } from 'redrive/store'

/** Dead letters that died of the same error. */
export interface DeadGroup {
  readonly code: string
  readonly reason: string
  count: number
  /** The id of one of them. */
  readonly example: string
}

/** A summary of a store's records, from its first task to its last. */
export interface Summary {
  readonly tasks: Map<TaskStatus, number>
  readonly rows: Map<LedgerRow['outcome'], number>
  /** How many tasks that have ended needed 0, 1, 2… retries. */
  readonly retries: Map<number, number>
  readonly dead: Map<string, DeadGroup>
  /** How many attempts this worker has on record. */
  attemptsOfWorker: number
  /** Ids of tasks whose state and history do not agree. */
  readonly disagreeing: string[]
}

/** Reads all tasks and their whole history. */
export async function summarise(store: Store, worker: string): Promise<Summary> {
  const summary: Summary = {
    tasks: new Map(),
    rows: new Map(),
    retries: new Map(),
    dead: new Map(),
    attemptsOfWorker: 0,
    disagreeing: [],
  }
  let after: string | undefined
  do {
    const { items, next } = await store.list({}, { limit: 500, after })
    for (const task of items) include(summary, task, await store.ledger(task.id), worker)
    after = next
  } while (after !== undefined)
  return summary
}

function include(summary: Summary, task: TaskRecord, history: readonly LedgerRow[], worker: string): void {
  increment(summary.tasks, task.status)
  for (const row of history) {
    increment(summary.rows, row.outcome)
    if (row.worker === worker && row.attempt > 0) summary.attemptsOfWorker++
  }
  if (task.status === 'waiting' || task.status === 'running') return
  const last = history.at(-1)
  // A task whose workers died is dead on its last `lost` row; a cancelled one may never have run.
  const isAgreed = last?.outcome === task.status || last?.outcome === 'lost' || task.status === 'cancelled'
  if (!isAgreed) summary.disagreeing.push(task.id)
  increment(summary.retries, history.filter(isRetried).length)
  if (task.status === 'dead') includeDead(summary.dead, task)
}

/** A lost attempt was followed by another unless it is told why not. */
function isRetried({ outcome, reason }: LedgerRow): boolean {
  return outcome === 'retry' || (outcome === 'lost' && reason === undefined)
}

function includeDead(groups: Summary['dead'], { id, errorCode = 'unknown', reason = '' }: TaskRecord): void {
  const key = `${errorCode} ${reason}`
  const group = groups.get(key) ?? { code: errorCode, reason, count: 0, example: id }
  group.count++
  groups.set(key, group)
}

function increment<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
