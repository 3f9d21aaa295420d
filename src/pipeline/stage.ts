import {
  type Duration,
  extendPolicy,
  hashJson,
  OptionError,
  type Policy,
  type PolicyInput,
  policies,
} from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { Cost, Rate } from '../store/internal.js'
import type { Later, Skip } from '../task/index.js'
import type { RateInput } from '../task/internal.js'
import { type KeptAsJson, toRates } from '../task/internal.js'
import type { BatchContext, StageContext } from './stage-context.js'

/** The work of a stage: returns the input of the next one. A throw is a failure, `skip(reason)` ends the item without one. */
export type StageHandler<In, Out> = (
  input: In,
  context: StageContext,
) => Out | Skip | Later | PromiseLike<Out | Skip | Later>

/** Options of `stage()`. @inline */
export interface StageOptions<In> {
  /** Laid over `policies.stage`, field by field. */
  readonly policy?: PolicyInput
  /** How long one attempt may run: shorthand for the policy's `timeout`. Default 30 s. */
  readonly timeout?: Duration
  /** How many items each process works on at once. Default 10. */
  readonly concurrency?: number
  /** How fast items may start, over all runs and machines: one bucket per name, and all of them hold. Default: no limit. */
  readonly rates?: Readonly<Record<string, RateInput>>
  /** How much an item takes from the buckets. Called when it arrives at the stage. A bucket that is not named: 1. */
  readonly cost?: (input: In) => Cost
}

const STAGE_OPTIONS: KnownOptions<StageOptions<unknown>> = {
  policy: 'object',
  timeout: '',
  concurrency: '',
  rates: 'object',
  cost: 'function',
}

/** One call per item. `call` is a method, so that stages with different inputs fit into one list. */
export interface EachWork {
  readonly type: 'each'
  /** Runs the handler for one item. */
  call(input: unknown, context: StageContext): unknown
}

/** One call for up to `size` items, each of which waits at most `withinMs` for others. */
export interface BatchWork {
  readonly type: 'batch'
  /** The most items of a call. */
  readonly size: number
  /** How long the first item of a call waits for others. */
  readonly withinMs: number
  /** Runs the handler for the items of a call. */
  call(inputs: readonly unknown[], context: BatchContext): unknown
}

/** The code of a stage, whatever it takes and returns. */
export interface StageCode {
  /** The name of the stage. */
  readonly name: string
  /** The whole policy: the one given, laid over `policies.stage`. */
  readonly policy: Policy
  /** The hash under which the ledger names the policy. */
  readonly policyHash: string
  /** How many items each process works on at once; for a batch stage, how many calls. */
  readonly concurrency: number
  /** How fast items may start, over all runs and machines. */
  readonly rates: Readonly<Record<string, Rate>>
  /** The text of the handler, from which the default version of the pipeline is made. */
  readonly text: string
  /** The handler: one call per item, or one for many. */
  readonly work: EachWork | BatchWork
  /** The cost of an item; `undefined`: the default. */
  cost(input: unknown): Cost | undefined
}

/** A stage that takes `In` and passes `Out` on. Made by `stage()` and `batch()`. */
export interface Stage<In, Out> extends StageCode {
  /** Carries the types from stage to stage. Never set. */
  readonly passes?: (input: In) => Out
}

/**
 * A stage of a pipeline.
 *
 * ```ts
 * stage('fetch', async (url: string, { signal }) => (await fetch(url, { signal })).text(), { concurrency: 20, timeout: '10s' })
 * ```
 */
export function stage<In, Out>(
  name: string,
  handler: StageHandler<In, Out>,
  options: StageOptions<In> = {},
): Stage<In, KeptAsJson<Awaited<Out>>> {
  checkOptions(`The stage '${name}'`, options, STAGE_OPTIONS)
  const { cost = () => undefined, rates = {} } = options
  return {
    ...stageBasics(name, handler, options),
    rates: toRates(`the stage '${name}'`, rates),
    work: { type: 'each', call: handler },
    cost,
  }
}

/** The parts that all stages share, checked. */
export function stageBasics(
  name: string,
  handler: unknown,
  { policy = {}, timeout, concurrency = 10 }: Pick<StageOptions<never>, 'policy' | 'timeout' | 'concurrency'>,
): Omit<StageCode, 'rates' | 'work' | 'cost'> {
  if (!/^[\w.-]{1,100}$/.test(name)) {
    throw new OptionError('name', `A stage is named with letters, digits and _.- (at most 100), got '${name}'.`)
  }
  if (typeof handler !== 'function') throw new OptionError('handler', `The stage '${name}' has no handler.`)
  if (!(Number.isInteger(concurrency) && concurrency >= 1)) {
    throw new OptionError(
      'concurrency',
      `The 'concurrency' of the stage '${name}' must be a whole number, 1 or more, got ${concurrency}.`,
    )
  }
  const effective = extendPolicy(policies.stage, timeout === undefined ? policy : { ...policy, timeout })
  return { name, policy: effective, policyHash: hashJson(effective), concurrency, text: String(handler) }
}
