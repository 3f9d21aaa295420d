import { appendFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { FinalError, type PolicyInput } from 'redrive'
import { batch, type Pipeline, pipeline, stage } from 'redrive/pipeline'
import { skip } from 'redrive/task'

/** An item of these tests, and its value after each stage. */
export interface Item {
  readonly n: number
}
interface Fetched extends Item {
  readonly fetched: number
}
interface Embedded extends Fetched {
  readonly embedded: number
}

export const STAGES: readonly string[] = ['fetch', 'embed', 'filter']

const QUICK: PolicyInput = { attempts: 3, backoff: { kind: 'exponential', base: '10ms', max: '40ms' }, jitter: 'full' }

/** Which items are skipped, which die, and which fail once: by their number. */
export const isSkipped = ({ n }: Item) => n % 100 === 7
export const isFatal = ({ n }: Item) => n % 100 === 13
const failsOnce = ({ n }: Item) => n % 50 === 21

/** A line per call of a stage and item, in the order of all processes: on disk before anything else happens. */
export const STARTS = 'starts.log'

/** A stage, a batch stage and a stage that ends items in three ways. `folder` is where they leave their traces. */
export function makePipeline(folder: string, { concurrency = 50, ms = 2 } = {}): Pipeline<Item, Embedded> {
  const started = (name: string, ids: readonly string[]) => {
    appendFileSync(join(folder, STARTS), ids.map(id => `${name} ${id}\n`).join(''))
  }
  return pipeline(
    'faults',
    stage(
      'fetch',
      async (item: Item, { id, attempt }): Promise<Fetched> => {
        started('fetch', [id])
        await sleep(item.n % (2 * ms))
        if (failsOnce(item) && attempt === 1) throw new Error('not yet')
        return { ...item, fetched: item.n + 1 }
      },
      { policy: QUICK, concurrency },
    ),
    batch(
      'embed',
      async (inputs: readonly Fetched[], { items }) => {
        started(
          'embed',
          items.map(({ id }) => id),
        )
        await sleep(ms)
        return inputs.map(item => ({ ...item, embedded: item.fetched * 2 }))
      },
      { size: 25, within: '5ms', concurrency: 4, policy: QUICK },
    ),
    stage(
      'filter',
      (item: Embedded, { id }) => {
        started('filter', [id])
        if (isSkipped(item)) return skip('not wanted')
        if (isFatal(item)) throw new FinalError('never')
        return item
      },
      { policy: QUICK, concurrency },
    ),
  )
}

/** The items of a run, and what becomes of one that is neither skipped nor dead. */
export function* makeItems(count: number): Generator<Item> {
  for (let n = 0; n < count; n++) yield { n }
}
export const resultOf = (n: number): Embedded => ({ n, fetched: n + 1, embedded: 2 * (n + 1) })

/** A stage that has one attempt, and ends once the file `go` is there. */
export function makeSingle(folder: string, concurrency: number): Pipeline<Item, Item> {
  return pipeline(
    'single',
    stage(
      'wait',
      async (item: Item, { id }) => {
        appendFileSync(join(folder, STARTS), `wait ${id}\n`)
        while (!existsSync(join(folder, 'go'))) await sleep(10)
        return item
      },
      { policy: { attempts: 1 }, concurrency },
    ),
  )
}
