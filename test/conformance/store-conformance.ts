import { type ConformanceCase, casesOf } from '../../src/testing/conformance-case.js'
import { ADVANCE } from './advance.js'
import { ARRANGE } from './arrange.js'
import { BATCHES } from './batches.js'
import { BUDGETS } from './budgets.js'
import { BULK_ACTS } from './bulk-acts.js'
import { BY_HAND } from './by-hand.js'
import { CHECKS } from './checks.js'
import { CLAIM } from './claim.js'
import { COST_BUDGETS } from './cost-budgets.js'
import { COSTS } from './costs.js'
import { DEAD_HEADS } from './dead-heads.js'
import { ENDS } from './ends.js'
import { ENQUEUE } from './enqueue.js'
import { GROUP_LIFE } from './group-life.js'
import { GROUP_RULES } from './group-rules.js'
import { GROUPS } from './groups.js'
import type { StoreBehaviours, StoreUnderTest } from './harness.js'
import { IF_DEAD } from './if-dead.js'
import { checkInvariants } from './invariants.js'
import { LANE_RULES } from './lane-rules.js'
import { LANES } from './lanes.js'
import { LEASES } from './leases.js'
import { LIFETIMES } from './lifetimes.js'
import { LIMITS } from './limits.js'
import { LISTS } from './lists.js'
import { ONCE } from './once.js'
import { OPERATOR_RECORDS } from './operator-records.js'
import { OPERATORS } from './operators.js'
import { OUTSIDE_ACTS } from './outside-acts.js'
import { PATCHED_REDRIVES } from './patched-redrives.js'
import { PAYLOAD_FILTERS } from './payload-filters.js'
import { PER_QUOTA } from './per-quota.js'
import { PRUNE } from './prune.js'
import { QUOTAS } from './quotas.js'
import { RECORDS } from './records.js'
import { REGROUPING } from './regrouping.js'
import { RETRY_BUDGETS } from './retry-budgets.js'
import { ROOMS } from './rooms.js'
import { RUNS } from './runs.js'
import { SCHEDULES } from './schedules.js'
import { SETTLE } from './settle.js'
import { SHARED_LIMITS } from './shared-limits.js'
import { STANDING } from './standing.js'
import { STATS } from './stats.js'
import { STEPS } from './steps.js'
import { TRACES } from './traces.js'
import { UNIQUE } from './unique.js'
import { WORKERS } from './workers.js'

const THEMES: Readonly<Record<string, StoreBehaviours>> = {
  enqueue: ENQUEUE,
  'unique keys': UNIQUE,
  claim: CLAIM,
  rooms: ROOMS,
  settle: SETTLE,
  'tasks that follow a death': IF_DEAD,
  advance: ADVANCE,
  lanes: LANES,
  'lane rules': LANE_RULES,
  limits: LIMITS,
  'dead heads': DEAD_HEADS,
  'shared limits': SHARED_LIMITS,
  quotas: QUOTAS,
  'limits per quota': PER_QUOTA,
  budgets: BUDGETS,
  'retry budgets': RETRY_BUDGETS,
  costs: COSTS,
  'cost budgets': COST_BUDGETS,
  ends: ENDS,
  leases: LEASES,
  'times to live': LIFETIMES,
  workers: WORKERS,
  operators: OPERATORS,
  'operator records': OPERATOR_RECORDS,
  'ends by hand': BY_HAND,
  operations: BULK_ACTS,
  'acts on tasks that wait': ARRANGE,
  'redrives with a patch': PATCHED_REDRIVES,
  'outside acts': OUTSIDE_ACTS,
  lists: LISTS,
  'filters by payload': PAYLOAD_FILTERS,
  groups: GROUPS,
  'the life of groups': GROUP_LIFE,
  'rules about groups': GROUP_RULES,
  regrouping: REGROUPING,
  standing: STANDING,
  stats: STATS,
  records: RECORDS,
  traces: TRACES,
  steps: STEPS,
  once: ONCE,
  prune: PRUNE,
  runs: RUNS,
  batches: BATCHES,
  schedules: SCHEDULES,
  checks: CHECKS,
}

/**
 * The behaviour that every store must have, as cases for any test runner. Each case also checks the invariants.
 *
 * ```ts
 * for (const { name, run } of storeConformance(open)) it(name, run)
 * ```
 */
export function storeConformance(open: () => Promise<StoreUnderTest> | StoreUnderTest): readonly ConformanceCase[] {
  return casesOf(THEMES, async behaviour => {
    const { store, advance, close } = await open()
    try {
      await behaviour(store, async ms => advance(ms))
      await checkInvariants(store)
    } finally {
      await store.close()
      await close?.()
    }
  })
}
