import { toMs } from '../engine/internal.js'
import { type Duration, OptionError } from '../policy/index.js'
import { checkOptions, isObject, type KnownOptions } from '../policy/internal.js'
import type { Cost } from '../store/internal.js'
import type { Skip } from '../task/index.js'
import type { RateInput } from '../task/internal.js'
import { type KeptAsJson, toRates } from '../task/internal.js'
import { type Stage, type StageOptions, stageBasics } from './stage.js'
import type { BatchContext } from './stage-context.js'

/** The work of a batch stage: returns one result per input, in their order. An `Error` in place of a result fails that item. */
export type BatchHandler<In, Out> = (
  inputs: readonly In[],
  context: BatchContext,
) => readonly (Out | Skip | Error)[] | PromiseLike<readonly (Out | Skip | Error)[]>

/** Options of `batch()`. @inline */
export interface BatchOptions<In> extends Pick<StageOptions<In>, 'policy' | 'timeout'> {
  /** The maximum number of items per call. */
  readonly size: number
  /** How long an item waits for others to join its call. Default 100 ms. */
  readonly within?: Duration
  /** How many calls each process makes at once. Default 1. */
  readonly concurrency?: number
  /** How fast calls may start, over all runs and machines. A bucket that `cost` names is filled and emptied per item. */
  readonly rates?: Readonly<Record<string, RateInput>>
  /** How much an item takes from the buckets. A bucket that is not named: its share of a call, 1 ÷ `size`. */
  readonly cost?: (input: In) => Cost
}

const BATCH_OPTIONS: KnownOptions<BatchOptions<unknown>> = {
  policy: 'object',
  timeout: '',
  size: '',
  within: '',
  concurrency: '',
  rates: 'object',
  cost: 'function',
}

/**
 * A stage that takes many items in one call, and passes them on one by one. A call that throws is halved until the item at
 * fault is alone; a handler that returns an `Error` in the place of that item spares these calls.
 *
 * ```ts
 * batch('embed', async (texts: readonly string[]) => embeddings(texts), { size: 100, within: '200ms' })
 * ```
 */
export function batch<In, Out>(
  name: string,
  handler: BatchHandler<In, Out>,
  options: BatchOptions<In>,
): Stage<In, KeptAsJson<Out>> {
  checkOptions(`The batch stage '${name}'`, options, BATCH_OPTIONS)
  if (!isObject(options)) throw new OptionError('size', `The batch stage '${name}' needs a 'size': { size: 100 }, say.`)
  const { size, within = '100ms', concurrency = 1, rates = {}, cost = () => ({}) } = options
  if (!(Number.isInteger(size) && size >= 1)) {
    throw new OptionError(
      'size',
      `The 'size' of the batch stage '${name}' must be a whole number, 1 or more, got ${size}.`,
    )
  }
  const buckets = toRates(`the stage '${name}'`, rates)
  const share = Object.fromEntries(Object.keys(buckets).map(bucket => [bucket, 1 / size]))
  return {
    ...stageBasics(name, handler, { ...options, concurrency }),
    rates: buckets,
    work: { type: 'batch', size, withinMs: toMs('within', within), call: handler },
    cost: (input: In) => ({ ...share, ...cost(input) }),
  }
}
