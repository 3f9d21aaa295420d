import type { TaskRecord } from '../store/index.js'
import type { RunStore } from '../store/internal.js'

const PAGE = 200

/** Options for reading the results of a run. */
export interface ResultOptions {
  /**
   * The places in the source of the items that were taken first, ascending: a trial's sample. All others were taken in the
   * order of the source.
   */
  readonly sample?: readonly number[]
  /** Stops the reading: the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal
}

/**
 * The results of a run's succeeded items as JSON texts, in the order of the source, read page by page. `null` for an item
 * whose last stage returned nothing.
 */
export async function* resultsInOrder(
  runs: Pick<RunStore, 'items'>,
  run: string,
  { sample = [], signal }: ResultOptions = {},
): AsyncGenerator<string> {
  const first: { readonly place: number; readonly result: string }[] = []
  const placeOf = placesAfter(sample)
  for await (const item of succeeded(runs, run, signal)) {
    const result = item.result ?? 'null'
    const position = positionOf(item)
    const place = sample[position]
    if (place !== undefined) {
      first.push({ place, result })
      continue
    }
    while (first[0] !== undefined && first[0].place < placeOf(position)) yield first.shift()?.result ?? 'null'
    yield result
  }
  for (const { result } of first) yield result
}

async function* succeeded(
  runs: Pick<RunStore, 'items'>,
  run: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<TaskRecord> {
  let after: string | undefined
  do {
    signal?.throwIfAborted()
    const { items, next } = await runs.items(run, { limit: PAGE, after }, 'succeeded')
    yield* items
    after = next
  } while (after !== undefined)
}

/** The position at which an item was taken is the end of its id. */
function positionOf({ id }: TaskRecord): number {
  return Number(id.slice(id.lastIndexOf(':') + 1))
}

/** The place in the source of an item that was taken after the sample. Positions must ascend. */
function placesAfter(sample: readonly number[]): (position: number) => number {
  let passed = 0
  return position => {
    const before = position - sample.length
    while (passed < sample.length && (sample[passed] ?? 0) - passed <= before) passed++
    return before + passed
  }
}
