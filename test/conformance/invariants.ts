import assert from 'node:assert/strict'
import { recordProblems } from '../../src/operate/internal.js'
import type { Lane, LedgerRow, TaskRecord, TaskStatus } from '../../src/store/index.js'
import type { StoreContract } from '../../src/store/internal.js'

const STATUSES: readonly TaskStatus[] = ['waiting', 'running', 'succeeded', 'skipped', 'dead', 'cancelled']

/** Tasks that are read together. */
const AT_ONCE = 1000

/**
 * Checks the invariants of a store: at every moment, every task is in exactly one state, its fields fit that state, and
 * its history accounts for its counters. Reads all tasks.
 */
export async function checkInvariants(store: StoreContract): Promise<void> {
  const tasks = await allTasks(store)
  assert.equal(new Set(tasks.map(({ id }) => id)).size, tasks.length, 'a task is listed twice')

  const counts = await store.count({})
  for (const status of STATUSES) {
    const inState = tasks.filter(task => task.status === status).length
    assert.equal(counts[status], inState, `${counts[status]} tasks are counted as ${status}, ${inState} are`)
  }
  await checkStats(store, counts)
  for (let from = 0; from < tasks.length; from += AT_ONCE) {
    const some = tasks.slice(from, from + AT_ONCE)
    const ledgers = await store.ledgers(some.map(({ id }) => id))
    for (const [index, task] of some.entries()) checkTask(task, ledgers[index] ?? [])
  }
  await checkGroups(store, tasks)
  checkUniqueKeys(tasks)

  for (const lane of await store.lanes()) {
    const running = tasks.filter(task => task.status === 'running' && isIn(lane, task)).length
    assert.equal(lane.running, running, `the lane ${nameOf(lane)} says ${lane.running} run, and ${running} do`)
  }
}

/** The figures by kind add up to the counts, and no task is ready that does not wait. */
async function checkStats(store: StoreContract, counts: Readonly<Record<TaskStatus, number>>): Promise<void> {
  const { kinds } = await store.stats()
  for (const status of ['waiting', 'running', 'dead'] as const) {
    const sum = kinds.reduce((total, stats) => total + stats[status], 0)
    assert.equal(sum, counts[status], `the figures say that ${sum} are ${status}, and ${counts[status]} are`)
  }
  for (const { kind, waiting, paused, held, ready } of kinds)
    assert.ok(paused + held + ready <= waiting, `${ready} ready tasks of ${kind}, of ${waiting} that wait`)
}

/** The figures of a group equal a count over the tasks, and every task that has a group is in one that exists. */
async function checkGroups(store: StoreContract, tasks: readonly TaskRecord[]): Promise<void> {
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

/** At most one unfinished task has a unique key, and whoever waits for the end of another one will see it. */
function checkUniqueKeys(tasks: readonly TaskRecord[]): void {
  const holders = new Set<string>()
  const unfinished = tasks.filter(({ status, unique }) => unique && (status === 'waiting' || status === 'running'))
  const keyOf = ({ kind, unique }: TaskRecord) => JSON.stringify([kind, unique?.key])
  for (const task of unfinished.filter(({ unique, isQueued }) => unique?.while === 'unfinished' && !isQueued)) {
    assert.ok(!holders.has(keyOf(task)), `two unfinished tasks have the key ${keyOf(task)}`)
    holders.add(keyOf(task))
  }
  for (const task of unfinished.filter(({ isQueued }) => isQueued)) {
    const isTwin = (other: TaskRecord) => !other.isQueued && keyOf(other) === keyOf(task)
    assert.ok(unfinished.some(isTwin), `${task.id} waits for a twin, and there is none`)
  }
}

/** Every task, page by page. */
export async function allTasks(store: StoreContract): Promise<TaskRecord[]> {
  const tasks: TaskRecord[] = []
  for (let after: string | undefined; ; ) {
    const page = await store.list({}, { limit: AT_ONCE, after })
    tasks.push(...page.items)
    if (page.next === undefined) return tasks
    after = page.next
  }
}

function checkTask(task: TaskRecord, ledger: readonly LedgerRow[]): void {
  assert.ok(STATUSES.includes(task.status), `task ${task.id}: no such status as ${task.status}`)
  assert.deepEqual(recordProblems(task, ledger), [], `task ${task.id}, ${task.status}`)
}

function isIn(lane: Lane, task: Lane): boolean {
  return task.kind === lane.kind && task.category === lane.category && task.key === lane.key
}

function nameOf({ kind, category, key }: Lane): string {
  return JSON.stringify([kind, category, key])
}
