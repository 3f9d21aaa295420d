import type { LedgerRow, TaskRecord } from 'redrive/store'
import { expect } from 'vitest'
import type { StoreContract } from '../../src/store/internal.js'
import { checkInvariants } from '../conformance/invariants.js'
import { type PipelineScene, RUN, type Start } from './pipeline-scene.js'
import { isFatal, isSkipped, resultOf, STAGES } from './pipeline-stages.js'

/** How many workers may die of an item: the default of a policy. */
const LOSSES = 3

/** The ends of attempts after which a stage runs again. On a busy machine a worker may lose its lease: its attempts end `later`. */
const GOES_ON: readonly string[] = ['lost', 'retry', 'later'] satisfies LedgerRow['outcome'][]

/**
 * Asserts what must hold once a run has ended, whatever happened to its processes: every item has ended as its number says,
 * with the right result; its ledger has no gap; no stage ran after the next one had begun, nor more often than the ledger
 * says; the counts add up; the run ended once.
 */
export async function expectRunAccountedFor(scene: PipelineScene, count: number): Promise<void> {
  const { store } = scene
  const run = await store.runs.get(RUN)
  expect(run).toMatchObject({ status: 'completed', position: count, isRead: true, duplicates: 0, endings: 1 })

  const starts = countStarts(scene.starts())
  const items = await allItems(store)
  expect(items).toHaveLength(count)
  const seen = { succeeded: 0, skipped: 0, dead: 0, waiting: 0, running: 0, cancelled: 0 }
  for (let first = 0; first < items.length; first += 500) {
    const page = items.slice(first, first + 500)
    const ledgers = await store.ledgers(page.map(({ id }) => id))
    page.forEach((item, index) => {
      seen[item.status]++
      expectItem(item, ledgers[index] ?? [], first + index, starts)
    })
  }
  expect(run?.counts).toEqual(seen)
  await expectEndedOnce(store)
  await checkInvariants(store)
}

function expectItem(item: TaskRecord, ledger: readonly LedgerRow[], n: number, starts: StartCounts): void {
  const rows = ledger.map(({ category, attempt, outcome }) => [category, attempt, outcome])
  const about = `${item.id} ${item.status}: ${JSON.stringify(rows)}`
  expect(JSON.parse(item.payload), about).toEqual({ n })
  expect(
    ledger.map(({ sequence }) => sequence),
    `${about}: a gap in the ledger`,
  ).toEqual(ledger.map((_, index) => index + 1))
  const last = ledger.at(-1)
  if (item.status === 'dead' && item.reason === 'losses_exhausted') {
    const lost = ledger.filter(({ outcome, category }) => outcome === 'lost' && category === last?.category)
    expect(lost.length, `${about}: given up too early`).toBe(LOSSES)
    return
  }
  expect(item.status, about).toBe(isSkipped({ n }) ? 'skipped' : isFatal({ n }) ? 'dead' : 'succeeded')
  if (item.status === 'succeeded') expect(JSON.parse(item.result ?? ''), about).toEqual(resultOf(n))

  for (const stage of STAGES) {
    const ofStage = ledger.filter(({ category }) => category === stage)
    const ends = ofStage.filter(({ outcome }) => !GOES_ON.includes(outcome))
    expect(ends, `${about}: the end of ${stage}`).toHaveLength(1)
    const made = starts.get(`${stage} ${n}`) ?? 0
    expect(made, `${about}: ${stage} never ran`).toBeGreaterThan(0)
    expect(made, `${about}: a start of ${stage} that is not on record`).toBeLessThanOrEqual(ofStage.length)
  }
}

type StartCounts = ReadonlyMap<string, number>

/** How often each stage ran for each item, by stage and position. Asserts that none ran after the next one had begun. */
function countStarts(starts: readonly Start[]): StartCounts {
  const counts = new Map<string, number>()
  const reached = new Map<string, number>()
  for (const { stage, item } of starts) {
    const n = Number(item)
    const place = STAGES.indexOf(stage)
    expect(place, `${stage} of ${n} ran again after its value was committed`).toBeGreaterThanOrEqual(
      reached.get(item) ?? 0,
    )
    reached.set(item, place)
    counts.set(`${stage} ${n}`, (counts.get(`${stage} ${n}`) ?? 0) + 1)
  }
  return counts
}

/** The items of the run, in the order of the source. */
async function allItems(store: StoreContract): Promise<TaskRecord[]> {
  const items: TaskRecord[] = []
  for (let after: string | undefined; ; ) {
    const page = await store.runs.items(RUN, after === undefined ? { limit: 1000 } : { limit: 1000, after })
    items.push(...page.items)
    if (page.next === undefined) return items
    after = page.next
  }
}

/** One task follows the end of the run. */
async function expectEndedOnce(store: StoreContract): Promise<void> {
  const { items } = await store.list({ kind: 'ended' }, { limit: 10 })
  expect(items.map(({ id }) => id)).toEqual([`${RUN}:end:1`])
}
