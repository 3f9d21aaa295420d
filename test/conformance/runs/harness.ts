import assert from 'node:assert/strict'
import type { TaskStatus } from '../../../src/store/index.js'
import type {
  Chunk,
  ClaimedTask,
  NewRun,
  Outcome,
  RunRecord,
  RunSettings,
  StoreContract,
} from '../../../src/store/internal.js'
import { claim, LEASE_MS, settle } from '../harness.js'

export const ANN = { who: 'ann', why: 'the API is back' }

export const SETTINGS: RunSettings = {
  failureBudget: 1,
  stageBudgets: {},
  checkInterval: 10,
  budgetWindow: undefined,
  completedFrom: 0.95,
  partialFrom: 0.5,
  maxUnfinished: 10_000,
  concurrency: {},
}

export const KIND = 'pipeline:enrich'

/** Opens a run of two stages, `fetch` and `call`. */
export function open(
  store: StoreContract,
  run: Partial<Omit<NewRun, 'settings'>> & { settings?: Partial<RunSettings> } = {},
) {
  const settings = { ...SETTINGS, ...run.settings }
  return store.runs.open({ id: 'r', pipeline: 'enrich', version: 'v1', stages: ['fetch', 'call'], ...run, settings })
}

/** A chunk of this many items, with payloads 0, 1, 2 … */
export function chunk(count: number, more: Partial<Chunk> = {}): Chunk {
  const items = Array.from({ length: count }, (_, index) => ({ payload: String(index) }))
  return { reader: 'reader', leaseMs: LEASE_MS, position: 0, items, isEnd: true, ...more }
}

/** A run whose source was read to its end. */
export async function runOf(
  store: StoreContract,
  count: number,
  run: Parameters<typeof open>[1] = {},
): Promise<RunRecord> {
  const { id } = await open(store, run)
  return store.runs.take(id, chunk(count))
}

/** Claims items, in the order of the source. */
export async function take(store: StoreContract, limit: number, kind = KIND): Promise<readonly ClaimedTask[]> {
  const { tasks } = await claim(store, { kinds: [kind], limit })
  assert.equal(tasks.length, limit, `${limit} items should be there to claim`)
  return tasks
}

export const DEAD: Outcome = { type: 'dead', reason: 'attempts_exhausted' }

export function kill(store: StoreContract, item: ClaimedTask, code = 'http_422') {
  return settle(store, item, DEAD, { verdict: { class: 'final', code }, error: 'Error: bad' })
}

export const succeed = (store: StoreContract, item: ClaimedTask) =>
  settle(store, item, { type: 'succeeded', result: '"ok"' })

/** Lets the next items end: each letter is one of them, `s` succeeded, `k` skipped, `d` dead. */
export async function end(store: StoreContract, letters: string): Promise<void> {
  for (const [index, item] of (await take(store, letters.length)).entries()) {
    if (letters[index] === 's') await succeed(store, item)
    else if (letters[index] === 'd') await kill(store, item)
    else await settle(store, item, { type: 'skipped', reason: 'filtered' })
  }
}

export const counts = (some: Partial<Record<TaskStatus, number>>) => ({
  waiting: 0,
  running: 0,
  succeeded: 0,
  skipped: 0,
  dead: 0,
  cancelled: 0,
  ...some,
})

export async function get(store: StoreContract, id = 'r'): Promise<RunRecord> {
  const run = await store.runs.get(id)
  assert.ok(run !== undefined, `the run ${id} should be there`)
  return run
}

export async function audit(store: StoreContract): Promise<Record<string, unknown>[]> {
  return (await store.audit.page({ limit: 100 })).items.map(item => JSON.parse(item))
}

/** The statuses that a run has had, as its `onEnd` tasks tell. */
export async function endings(store: StoreContract): Promise<unknown[]> {
  const { items } = await store.list({ kind: 'report' }, { limit: 100 })
  return items.map(({ id, payload }) => [id, JSON.parse(payload)]).sort()
}
