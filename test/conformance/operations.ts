import fc from 'fast-check'
import type { Lane, LaneLimits, Retention } from '../../src/store/index.js'
import type { BudgetScope, Outcome, Room, TwinRule, UniqueKey } from '../../src/store/internal.js'

import type { ModelBudgetSettings } from './budget-model.js'
import { LEASE_MS } from './harness.js'
import type { ModelSpec, ScheduleStep } from './schedule-model.js'

/**
 * One step of the model test, as data, so that a failing list of steps can be shrunk. A step that depends on the contents
 * of the store has numbers, which pick from the list of candidates.
 */
export type Operation =
  | { readonly op: 'enqueue'; readonly tasks: readonly NewTaskChoice[] }
  | {
      readonly op: 'claim'
      readonly worker: string
      readonly rooms: readonly Room[]
      readonly limit: number
    }
  | { readonly op: 'settle'; readonly settlements: readonly SettlementChoice[] }
  | { readonly op: 'heartbeat'; readonly worker: string }
  /** A step is recorded for a task that is running, or for any that ever was claimed. */
  | {
      readonly op: 'step'
      readonly pick: number
      readonly isAny: boolean
      readonly name: string
      readonly isDone: boolean
    }
  /** All workers die, and one comes back once their leases have expired. */
  | { readonly op: 'die'; readonly survivor: string }
  | { readonly op: 'leave'; readonly worker: string }
  | { readonly op: 'cancel'; readonly picks: readonly number[] }
  /** The time to live of waiting tasks is over, and nobody runs them. */
  | { readonly op: 'expire'; readonly picks: readonly number[] }
  | { readonly op: 'redrive'; readonly picks: readonly number[]; readonly twin: TwinRule }
  | { readonly op: 'discard'; readonly picks: readonly number[] }
  | { readonly op: 'complete' | 'fail' | 'delete'; readonly picks: readonly number[] }
  /** Replaces payloads by a number. */
  | { readonly op: 'edit'; readonly picks: readonly number[]; readonly n: number }
  /** A bulk act on all dead letters of a kind: a redrive, perhaps with a patch that sets or removes a field, or a discard. */
  | {
      readonly op: 'act'
      readonly act: 'redrive' | 'discard'
      readonly kind: string
      readonly fromStep?: string | undefined
      readonly forgetStep?: string | undefined
      readonly twin?: TwinRule | undefined
      readonly patch?: { readonly n: number | null } | undefined
    }
  /** A bulk act on all tasks of a kind that wait; its time is counted from now. */
  | {
      readonly op: 'arrange'
      readonly act: 'promote' | 'reschedule' | 'prioritize'
      readonly kind: string
      readonly dueInMs: number
      readonly priority: number
    }
  /** Puts back what one of the bulk acts has moved. */
  | { readonly op: 'undo'; readonly pick: number }
  | { readonly op: 'pause'; readonly lanes: Partial<Lane> & { readonly kind: string }; readonly isPaused: boolean }
  | { readonly op: 'limit'; readonly lanes: Partial<Lane> & { readonly kind: string }; readonly limits: LaneLimits }
  | { readonly op: 'budget'; readonly scope: BudgetScope; readonly budget: ModelBudgetSettings }
  | { readonly op: 'lift'; readonly scope: BudgetScope }
  /** An operator closes a gate. */
  | { readonly op: 'close'; readonly scope: BudgetScope }
  /** All tasks of a group go to another one of their kind. */
  | {
      readonly op: 'regroup'
      readonly kind: string
      readonly from: string
      readonly to: string
      readonly isHeir: boolean
    }
  /** A producer adds members to a batch. */
  | {
      readonly op: 'fill'
      readonly batch: string
      readonly tasks: readonly Omit<NewTaskChoice, 'id' | 'unique' | 'n'>[]
      readonly isEnd: boolean
    }
  /** A worker looks whether a batch has ended. */
  | { readonly op: 'check'; readonly batch: string }
  | { readonly op: 'schedule'; readonly step: ScheduleStep }
  | { readonly op: 'prune'; readonly keep: Retention }
  | { readonly op: 'advance'; readonly ms: number }
  /** The process dies, and another one opens the store. */
  | { readonly op: 'reopen' }

/** A task to be enqueued, with its times counted from now. */
export interface NewTaskChoice extends Lane {
  readonly id: string
  readonly priority: number
  readonly submittedAgoMs: number
  readonly dueInMs: number
  readonly unique: UniqueKey | undefined
  /** The field of its payload. */
  readonly n: number | undefined
}

/** A claimed task to be settled: one that is running, or any that ever was claimed. */
export interface SettlementChoice {
  readonly pick: number
  readonly isAny: boolean
  /** Whether an attempt comes with it: without one, nothing is counted. */
  readonly hasAttempt: boolean
  /** The group of the failure, if the attempt failed. */
  readonly failure: string
  /** The verdict on it, unless a rate limit asked to wait. */
  readonly verdict: 'retryable' | 'final'
  readonly outcome: Outcome
}

const KINDS = ['k', 'l']
const CATEGORIES = ['', 'c']
const KEYS = ['', 't', 'u']
/** Lanes that are made late, when others have been paused and resumed. */
const RARE_KEYS = ['a', 'b', 'c', 'd', 'e']
const WORKERS = ['w1', 'w2', 'w3']
/** Few enough that some ids are enqueued twice, whatever the state of the first task. */
const IDS = 300
const STEPS = 120

/** Any unique key that makes sense. */
function uniqueKeys(): fc.Arbitrary<UniqueKey> {
  const key = fc.constantFrom('a', 'b')
  const span = fc.integer({ min: 1, max: 5000 })
  return fc.oneof(
    fc.record({
      key,
      while: fc.constant('unfinished' as const),
      conflict: fc.constantFrom('keep', 'replace', 'after'),
    }),
    fc.record({ key, while: fc.constant('waiting' as const), conflict: fc.constantFrom('keep', 'replace') }),
    fc.record({
      key,
      while: fc.constant('waiting' as const),
      conflict: fc.constant('postpone' as const),
      maxWaitMs: span,
    }),
    fc.record({
      key,
      while: fc.constant('within' as const),
      conflict: fc.constant('keep' as const),
      withinMs: span,
    }),
  )
}

/** Any step that concerns schedules. */
function scheduleSteps(): fc.Arbitrary<ScheduleStep> {
  const name = fc.constantFrom('a', 'a_b')
  const spec: fc.Arbitrary<ModelSpec> = fc.record({
    name,
    everyMs: fc.constantFrom(20_000, 30_000),
    catchUp: fc.constantFrom('skip', 'last', 'all'),
    catchUpWithinMs: fc.constantFrom(0, 90_000),
    overlap: fc.constantFrom('allow', 'skip', 'after', 'replace'),
    task: fc.record({ kind: fc.constantFrom(...KINDS), key: fc.constantFrom('', 't'), payload: fc.constant('{}') }),
  })
  return fc.oneof(
    { weight: 3, arbitrary: fc.record({ act: fc.constantFrom('set', 'declare'), spec }) },
    { weight: 2, arbitrary: fc.record({ act: fc.constantFrom('pause', 'resume', 'resume', 'remove'), name }) },
    { weight: 8, arbitrary: fc.record({ act: fc.constant('fire' as const) }) },
  )
}

/** Any list of operations. */
export function operations(): fc.Arbitrary<Operation[]> {
  const kind = fc.constantFrom(...KINDS)
  const category = fc.constantFrom(...CATEGORIES)
  const key = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...KEYS) },
    { weight: 1, arbitrary: fc.constantFrom(...RARE_KEYS) },
  )
  const worker = fc.constantFrom(...WORKERS)
  const lanes = fc.record({ kind, category, key }, { requiredKeys: ['kind'] })
  const pick = fc.nat({ max: 1000 })
  const picks = fc.array(pick, { minLength: 1, maxLength: 3 })
  const often = <T>(value: T, other: fc.Arbitrary<T>) =>
    fc.oneof({ weight: 2, arbitrary: fc.constant(value) }, { weight: 1, arbitrary: other })
  const ms = (max: number) => often(0, fc.nat({ max }))

  const member = {
    kind,
    category,
    key,
    priority: fc.nat({ max: 1 }),
    submittedAgoMs: ms(5000),
    dueInMs: ms(3000),
  }
  const task = fc.record({
    id: fc.nat({ max: IDS }).map(number => `t${number}`),
    ...member,
    unique: often<UniqueKey | undefined>(undefined, uniqueKeys()),
    n: fc.constantFrom(undefined, 1, 2),
  })
  const delayMs = fc.oneof(fc.constant(0), fc.nat({ max: 3000 }))
  const retry = fc.record({ type: fc.constant('retry' as const), delayMs, isBackoff: fc.boolean() })
  const advanced = fc.record({
    type: fc.constant('advanced' as const),
    to: category,
    value: fc.constantFrom('1', '"two"'),
    keep: often(true, fc.boolean()),
  })
  const outcome: fc.Arbitrary<Outcome> = fc.oneof(
    { weight: 2, arbitrary: retry },
    { weight: 1, arbitrary: fc.constant({ type: 'dead', reason: 'attempts_exhausted' } as const) },
    { weight: 1, arbitrary: fc.constant({ type: 'released' } as const) },
    { weight: 1, arbitrary: fc.constant({ type: 'lost' } as const) },
    { weight: 2, arbitrary: fc.constant({ type: 'succeeded', result: '1' } as const) },
    { weight: 1, arbitrary: fc.constant({ type: 'skipped', reason: 'r' } as const) },
    { weight: 1, arbitrary: fc.record({ type: fc.constant('deferred' as const), delayMs }) },
    { weight: 1, arbitrary: fc.record({ type: fc.constant('later' as const), delayMs }) },
    { weight: 1, arbitrary: fc.constant({ type: 'cancelled' } as const) },
    { weight: 4, arbitrary: advanced },
  )
  const failure = fc.constantFrom('a', 'b', 'c')
  const isAny = often(false, fc.boolean())
  const verdict = often<'retryable' | 'final'>('retryable', fc.constantFrom('retryable', 'final'))
  const settlement = fc.record({ pick, isAny, hasAttempt: often(true, fc.boolean()), failure, verdict, outcome })
  const limits = fc.oneof(
    fc.record(
      { concurrency: fc.nat({ max: 3 }), perSecond: fc.constantFrom(0.5, 1, 2.5, 4), isOrdered: fc.boolean() },
      { requiredKeys: [] },
    ),
    fc.constant({ isOrdered: true, onDead: 'block' } as const),
  )

  const room: fc.Arbitrary<Room> = fc.record({
    kinds: often(KINDS, fc.subarray(KINDS)),
    categories: often<string[] | undefined>(undefined, fc.subarray(CATEGORIES)),
    limit: often<number | undefined>(undefined, fc.nat({ max: 3 })),
  })

  const scope: fc.Arbitrary<BudgetScope> = fc.record({ kind, category }, { requiredKeys: ['kind'] })
  const windowMs = fc.constant(20_000)
  const failures = fc.record({
    share: fc.constantFrom(0.3, 0.5),
    minAttempts: fc.integer({ min: 1, max: 4 }),
    windowMs,
    holdMs: fc.constantFrom(500, 2000, 8000),
  })
  const allowance = { share: fc.constantFrom(0.2, 0.5, 1), windowMs, floor: fc.constantFrom(0.05, 0.1, 0.3) }
  const retries = fc.oneof(fc.record(allowance), fc.record({ ...allowance, dependency: fc.constantFrom('a', 'b') }))
  const budget: fc.Arbitrary<ModelBudgetSettings> = fc.oneof(
    fc.record({ failures }),
    fc.record({ retries }),
    fc.record({ failures, retries }),
  )
  const batch = fc.constantFrom('x', 'y')
  const twin = fc.constantFrom<TwinRule>('skip', 'replace', 'after')
  const patch = fc.record({ n: fc.constantFrom(1, 2, null) })
  const op = <Name extends Operation['op']>(name: Name) => fc.constant(name)
  const operation: fc.Arbitrary<Operation> = fc.oneof(
    { weight: 4, arbitrary: fc.record({ op: op('enqueue'), tasks: fc.array(task, { minLength: 1, maxLength: 5 }) }) },
    {
      weight: 8,
      arbitrary: fc.record({
        op: op('claim'),
        worker,
        rooms: fc.array(room, { maxLength: 3 }),
        limit: fc.nat({ max: 4 }),
      }),
    },
    {
      weight: 8,
      arbitrary: fc.record({ op: op('settle'), settlements: fc.array(settlement, { minLength: 1, maxLength: 3 }) }),
    },
    { weight: 4, arbitrary: fc.record({ op: op('advance'), ms: fc.nat({ max: 2000 }) }) },
    { weight: 1, arbitrary: fc.record({ op: op('advance'), ms: fc.nat({ max: LEASE_MS }) }) },
    {
      weight: 4,
      arbitrary: fc.record({ op: op('step'), pick, isAny, name: fc.constantFrom('a', 'b', 'c'), isDone: fc.boolean() }),
    },
    { weight: 2, arbitrary: fc.record({ op: op('heartbeat'), worker }) },
    { weight: 2, arbitrary: fc.record({ op: op('die'), survivor: worker }) },
    { weight: 1, arbitrary: fc.record({ op: op('leave'), worker }) },
    { weight: 1, arbitrary: fc.record({ op: op('cancel'), picks }) },
    { weight: 1, arbitrary: fc.record({ op: op('expire'), picks }) },
    { weight: 2, arbitrary: fc.record({ op: op('redrive'), picks, twin }) },
    { weight: 1, arbitrary: fc.record({ op: op('discard'), picks }) },
    { weight: 2, arbitrary: fc.record({ op: fc.constantFrom('complete', 'fail', 'delete'), picks }) },
    { weight: 1, arbitrary: fc.record({ op: op('edit'), picks, n: fc.nat({ max: 2 }) }) },
    { weight: 3, arbitrary: fc.record({ op: op('act'), act: fc.constantFrom('redrive', 'discard'), kind }) },
    { weight: 3, arbitrary: fc.record({ op: op('act'), act: fc.constant('redrive' as const), kind, patch, twin }) },
    {
      weight: 2,
      arbitrary: fc.record({
        op: op('act'),
        act: fc.constant('redrive' as const),
        kind,
        fromStep: fc.constantFrom('a', 'b'),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        op: op('act'),
        act: fc.constant('redrive' as const),
        kind,
        forgetStep: fc.constantFrom('a', 'b'),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        op: op('arrange'),
        act: fc.constantFrom('promote', 'reschedule', 'prioritize'),
        kind,
        dueInMs: fc.integer({ min: -500, max: 3000 }),
        priority: fc.nat({ max: 1 }),
      }),
    },
    { weight: 3, arbitrary: fc.record({ op: op('undo'), pick }) },
    {
      weight: 1,
      arbitrary: fc.record({ op: op('regroup'), kind, from: failure, to: failure, isHeir: fc.boolean() }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        op: op('pause'),
        lanes,
        isPaused: fc.boolean(),
      }),
    },
    { weight: 2, arbitrary: fc.record({ op: op('limit'), lanes, limits }) },
    {
      weight: 2,
      arbitrary: fc.record({
        op: op('fill'),
        batch,
        tasks: fc.array(fc.record(member), { maxLength: 3 }),
        isEnd: fc.boolean(),
      }),
    },
    { weight: 3, arbitrary: fc.record({ op: op('check'), batch }) },
    {
      weight: 1,
      arbitrary: fc.record({
        op: op('prune'),
        keep: fc.record({ endedMs: fc.nat({ max: 10_000 }), deadMs: fc.nat({ max: 10_000 }) }, { requiredKeys: [] }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ op: op('reopen') }) },
  )
  // Budgets hold back so much that all else would be tried less.
  const withBudgets = fc.oneof(
    { weight: 40, arbitrary: operation },
    { weight: 3, arbitrary: fc.record({ op: op('budget'), scope, budget }) },
    { weight: 1, arbitrary: fc.record({ op: op('lift'), scope }) },
    { weight: 1, arbitrary: fc.record({ op: op('close'), scope }) },
  )
  // Slots are so far apart that leases expire meanwhile.
  const withSchedules = fc.oneof(
    { weight: 6, arbitrary: operation },
    { weight: 2, arbitrary: fc.record({ op: op('schedule'), step: scheduleSteps() }) },
    { weight: 1, arbitrary: fc.record({ op: op('advance'), ms: fc.constantFrom(5000, 20_000, 30_000, 70_000) }) },
  )
  const list = (of: fc.Arbitrary<Operation>) => fc.array(of, { maxLength: STEPS, size: 'max' })
  return fc.oneof(list(operation), list(withBudgets), list(withSchedules))
}
