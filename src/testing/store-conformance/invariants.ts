import assert from 'node:assert/strict'
import type { Lane, LedgerRow, Store, TaskRecord, TaskStatus } from '../../store/index.js'

const STATUSES: readonly TaskStatus[] = ['waiting', 'running', 'succeeded', 'skipped', 'dead', 'cancelled']

/**
 * Checks the invariants of a store: at every moment, every task is in exactly one state, its fields fit that state, and
 * its history accounts for its counters. Reads all tasks.
 */
export async function checkInvariants(store: Store): Promise<void> {
  const tasks = await allTasks(store)
  assert.equal(new Set(tasks.map(({ id }) => id)).size, tasks.length, 'a task is listed twice')

  const counts = await store.count({})
  for (const status of STATUSES) {
    const inState = tasks.filter(task => task.status === status).length
    assert.equal(counts[status], inState, `${counts[status]} tasks are counted as ${status}, ${inState} are`)
  }
  await checkStats(store, counts)
  for (const task of tasks) checkTask(task, await store.ledger(task.id))
  await checkGroups(store, tasks)

  for (const lane of await store.lanes()) {
    const running = tasks.filter(task => task.status === 'running' && isIn(lane, task)).length
    assert.equal(lane.running, running, `the lane ${nameOf(lane)} says ${lane.running} run, and ${running} do`)
  }
}

/** The figures by kind add up to the counts, and no task is ready that does not wait. */
async function checkStats(store: Store, counts: Readonly<Record<TaskStatus, number>>): Promise<void> {
  const { kinds } = await store.stats()
  for (const status of ['waiting', 'running', 'dead'] as const) {
    const sum = kinds.reduce((total, stats) => total + stats[status], 0)
    assert.equal(sum, counts[status], `the figures say that ${sum} are ${status}, and ${counts[status]} are`)
  }
  for (const { kind, waiting, paused, held, ready } of kinds)
    assert.ok(paused + held + ready <= waiting, `${ready} ready tasks of ${kind}, of ${waiting} that wait`)
}

/** The figures of a group equal a count over the tasks, and every task that has a group is in one that exists. */
async function checkGroups(store: Store, tasks: readonly TaskRecord[]): Promise<void> {
  const { items: groups } = await store.groups.list({}, { limit: 10_000 })
  const known = new Set(groups.map(({ id }) => id))
  for (const { id, retrying, dead, seen } of groups) {
    const members = tasks.filter(({ group }) => group === id)
    const [waiting, running, died] = (['waiting', 'running', 'dead'] as const).map(
      status => members.filter(task => task.status === status).length,
    )
    assert.deepEqual({ retrying, dead }, { retrying: (waiting ?? 0) + (running ?? 0), dead: died }, `group ${id}`)
    assert.ok(seen > 0, `group ${id} was never seen`)
  }
  for (const { id, group } of tasks)
    if (group !== undefined) assert.ok(known.has(group), `${id}: there is no group ${group}`)
}

/** Every task, page by page. */
export async function allTasks(store: Store): Promise<TaskRecord[]> {
  const tasks: TaskRecord[] = []
  for (let after: string | undefined; ; ) {
    const page = await store.list({}, after === undefined ? { limit: 100 } : { limit: 100, after })
    tasks.push(...page.items)
    if (page.next === undefined) return tasks
    after = page.next
  }
}

function checkTask(task: TaskRecord, ledger: readonly LedgerRow[]): void {
  const about = `task ${task.id}, ${task.status}`
  assert.ok(STATUSES.includes(task.status), `${about}: no such status`)
  assert.equal(task.nextAttemptAt !== undefined, task.status === 'waiting', `${about}: next at ${task.nextAttemptAt}`)
  const isDiscarded = ledger.at(-1)?.outcome === 'discarded'
  const hasReason = task.status === 'dead' || task.status === 'skipped' || isDiscarded
  // A success has one where its result was not kept.
  const mayHaveReason = hasReason || (task.status === 'succeeded' && task.result === undefined)
  assert.ok(task.reason === undefined ? !hasReason : mayHaveReason, `${about}: reason`)
  assert.deepEqual(
    ledger.map(({ sequence }) => sequence),
    ledger.map((_, index) => index + 1),
    `${about}: the ledger has a gap`,
  )

  const isCleared = task.status === 'succeeded' || task.status === 'skipped'
  // An undo takes back the act in the row before it.
  const standing = ledger.filter((row, index) => row.outcome !== 'undone' && ledger[index + 1]?.outcome !== 'undone')
  // Every stage of an item begins afresh.
  const stage = standing.slice(standing.findLastIndex(({ outcome }) => outcome === 'advanced') + 1)
  const since = stage.slice(stage.findLastIndex(({ outcome }) => outcome === 'redriven') + 1)
  // A batch that was halved has made several attempts at the item that is left alone.
  const counted = since
    .filter(({ outcome }) => outcome === 'retry' || outcome === 'dead')
    .reduce((attempts, { attempt }) => Math.max(attempts + 1, attempt), 0)
  const deferred = since.filter(({ outcome }) => outcome === 'deferred').length
  const lost = stage.filter(({ outcome }) => outcome === 'lost').length
  assert.equal(task.attempts, isCleared ? 0 : counted, `${about}: attempts`)
  assert.equal(task.deferrals, isCleared ? 0 : deferred, `${about}: deferrals`)
  assert.equal(task.losses, isCleared ? 0 : lost, `${about}: losses`)
  if (isCleared) assert.equal(task.value, undefined, `${about}: value`)
  if (isCleared) assert.equal(task.errorClass ?? task.errorCode ?? task.errorMessage, undefined, `${about}: error`)
  // A redrive keeps the group.
  const failed = stage.findLast(({ group }) => group !== undefined)
  assert.equal(task.group, isCleared ? undefined : failed?.group, `${about}: group`)
}

function isIn(lane: Lane, task: Lane): boolean {
  return task.kind === lane.kind && task.category === lane.category && task.key === lane.key
}

function nameOf({ kind, category, key }: Lane): string {
  return JSON.stringify([kind, category, key])
}
