import type { Returned } from '../attempt/index.js'
import { JointCalls, type KindOptions, policyOfMember, validCost, type WorkKind } from '../engine/internal.js'
import { plainJson, problemOf } from '../policy/internal.js'
import { type ClaimedTask, type Cost, itemKind, type StoreContract } from '../store/internal.js'
import { isLater, isSkip } from '../task/internal.js'
import type { Work } from '../telemetry/index.js'
import { queueClock } from '../time/index.js'
import { batchContext } from './batch-context.js'
import { BatchResultError, StageCostError, StageValueError } from './errors.js'
import { itemContext, ownId } from './item-context.js'
import type { StageCode } from './stage.js'

/** A longer value belongs in a file or a table, with a reference to it in the item. */
const MAX_VALUE = 2 ** 20

/** The part of a pipeline that its stages need to know. */
export interface StageHome {
  readonly name: string
  readonly version: string
  readonly stages: readonly StageCode[]
}

/** A stage of a pipeline, as an engine runs it. */
export function stageKind(home: StageHome, index: number, store: StoreContract, options: KindOptions): WorkKind {
  const stage = home.stages[index]
  if (stage === undefined) throw new RangeError(`The pipeline '${home.name}' has no stage ${index}.`)
  const { name, rates } = stage
  const kind = itemKind(home.name)
  return {
    kind,
    stage: name,
    version: home.version,
    // Without rates too: a rate limit then holds the stage for all runs.
    prepare: () => store.limit({ kind, category: name }, { isShared: true, rates, isDeclared: true }),
    describe: task => itemWork(home.name, task),
    returned: (result, task) => passOn(result, stage, home.stages[index + 1], task),
    ...workOf(stage, store, options),
  }
}

function workOf(
  { name, concurrency, policy, policyHash, work }: StageCode,
  store: StoreContract,
  { clock = queueClock, classify }: KindOptions,
): Pick<WorkKind, 'places' | 'policy' | 'policyHash' | 'call'> {
  if (work.type === 'each') {
    return {
      places: { concurrency },
      policy,
      policyHash,
      call: (task, attempt, recorder) => work.call(inputOf(task), itemContext(task, attempt, recorder, store)),
    }
  }
  const { size, withinMs } = work
  const joint = new JointCalls<unknown>(
    {
      name,
      policy,
      size,
      withinMs,
      concurrency,
      handler: call =>
        work.call(
          call.members.map(({ input }) => input),
          batchContext(name, call),
        ),
      wrongResult: (expected, returned) => new BatchResultError(name, expected, returned),
    },
    clock,
    classify,
  )
  return {
    ...policyOfMember(policy),
    places: { concurrency, tasksPerCall: size, onResize: calls => joint.resize(calls) },
    call: (task, attempt, recorder) => joint.add(task, inputOf(task), attempt, recorder),
  }
}

/** The input of an item's present stage. */
function inputOf({ value, payload }: ClaimedTask): unknown {
  return JSON.parse(value ?? payload)
}

/** Says where an item goes with the value that its stage returned. Throws if the value cannot be passed on. */
export function passOn(
  result: unknown,
  stage: StageCode,
  next: StageCode | undefined,
  task: Pick<ClaimedTask, 'id' | 'key'>,
): Returned {
  if (isLater(result)) return { type: 'later', delayMs: result.delayMs }
  if (isSkip(result)) return { type: 'skipped', reason: result.reason.slice(0, 1000) }
  const item = ownId(task)
  if (next === undefined) return { type: 'succeeded', value: stageValue(stage.name, item, result) }
  const value = stageValue(stage.name, item, result, next.name)
  return { type: 'advanced', to: next.name, value, cost: costOf(next, result, item) }
}

/** The cost of an item at a stage, computed on its arrival. */
export function costOf(stage: StageCode, input: unknown, item: string): Cost | undefined {
  try {
    const cost = stage.cost(input)
    return cost === undefined ? undefined : validCost(cost, { from: 'cost', stage: stage.name })
  } catch (cause) {
    throw new StageCostError(stage.name, item, { cause })
  }
}

function itemWork(pipeline: string, { id, key, category }: ClaimedTask): Work {
  return { kind: 'item', id, name: `${pipeline}/${category}`, pipeline, run: key, stage: category }
}

/** The JSON of a value that a last stage returned. Nothing is a good result too. */
function stageValue(stage: string, item: string, value: unknown): string | undefined
/** The JSON of a value that goes on to the next stage. */
function stageValue(stage: string, item: string, value: unknown, next: string): string
function stageValue(stage: string, item: string, value: unknown, next?: string): string | undefined {
  const json = toJson(stage, item, value)
  if (json === undefined && next !== undefined)
    throw new StageValueError(stage, item, `it is undefined, and the stage '${next}' comes next.`)
  if (json !== undefined && json.length > MAX_VALUE)
    throw new StageValueError(stage, item, `it is ${json.length} characters long, and ${MAX_VALUE} are allowed.`)
  return json
}

function toJson(stage: string, item: string, value: unknown): string | undefined {
  try {
    return plainJson(value)
  } catch (error) {
    throw new StageValueError(stage, item, `${problemOf(error)}.`)
  }
}
