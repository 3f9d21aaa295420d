import type { Gauge } from 'prom-client'
import { RetryableError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { BudgetRecord, GroupRecord, Store } from '../store/index.js'
import { contractOf, type GroupState, type KindStats, type StoreContract, type StoreStats } from '../store/internal.js'

import { LabelSets, type WorkLabels } from './label-sets.js'
import { loadPromClient, type MetricsRegistry } from './prom-client.js'

/** Options of `storeMetrics`. @inline */
export interface StoreMetricsOptions {
  /** The registry for the metrics. Default: prom-client's own registry. */
  readonly registry?: MetricsRegistry | undefined
  /** How long the store may take to answer a scrape, in milliseconds. Default 5000. */
  readonly timeoutMs?: number | undefined
}

const STORE_METRICS_OPTIONS: KnownOptions<StoreMetricsOptions> = { registry: 'object', timeoutMs: '' }

/**
 * Creates gauges of the work in a store, which is read once per scrape. They cover all work of the store, whichever
 * process does it. While the store does not answer, `redrive_store_up` is 0 and the other gauges are absent.
 *
 * ```ts
 * await storeMetrics(store)
 * ```
 */
export async function storeMetrics(store: Store, options: StoreMetricsOptions = {}): Promise<void> {
  checkOptions('storeMetrics()', options, STORE_METRICS_OPTIONS)
  const contract = contractOf(store)
  const { registry, timeoutMs = 5000 } = options
  const { Gauge, register } = await loadPromClient()
  const registers = [registry ?? register]
  const labelSets = new LabelSets()

  // All gauges of a scrape are collected in the same turn of the event loop, so they share one question to the store.
  let reading: Promise<Figures | undefined> | undefined
  const read = () => {
    reading ??= within(timeoutMs, figuresOf(contract))
      .catch(() => undefined)
      .finally(() => {
        reading = undefined
      })
    return reading
  }

  new Gauge({
    name: 'redrive_store_up',
    help: 'Whether the store responded.',
    registers,
    async collect() {
      this.set((await read()) === undefined ? 0 : 1)
    },
  })
  new Gauge({
    name: 'redrive_workers',
    help: 'Workers whose lease has not expired.',
    registers,
    async collect() {
      const stats = await read()
      if (stats === undefined) this.remove()
      else this.set(stats.workers)
    },
  })
  new Gauge({
    name: 'redrive_schedule_lag_seconds',
    help: 'How long ago the oldest slot of a schedule was due that nobody has fired.',
    registers,
    async collect() {
      const figures = await read()
      if (figures === undefined) this.remove()
      else this.set(figures.scheduleLagMs / 1000)
    },
  })
  new Gauge({
    name: 'redrive_gate_open',
    help: 'Whether the gate of a failure budget keeps tasks back: 1 open, 0.5 half open, 0 closed. Category *: all.',
    labelNames: ['kind', 'category'],
    registers,
    async collect() {
      const budgets = (await read())?.budgets ?? []
      this.reset()
      for (const { kind, category = '*', failures, gate } of budgets)
        if (failures !== undefined) this.set({ ...labelSets.of(kind, category) }, GATE[gate.state])
    },
  })
  new Gauge({
    name: 'redrive_failure_groups',
    help: 'Failure groups that have tasks now, by their state. Counts the 1000 groups that were seen last.',
    labelNames: ['kind', 'state'],
    registers,
    async collect() {
      const groups = (await read())?.groups ?? []
      // After the store has answered: scrapes that overlap would add up.
      this.reset()
      for (const { kind: named, life, retrying, dead } of groups) {
        const { kind } = labelSets.of(named, '*')
        for (const state of GROUP_STATES) this.inc({ kind, state }, state === life.state && retrying + dead > 0 ? 1 : 0)
      }
    },
  })
  for (const [name, { help, value }] of Object.entries(GAUGES))
    new Gauge({
      name,
      help,
      labelNames: ['kind', 'category'],
      registers,
      async collect() {
        show(this, await read(), labelSets, value)
      },
    })
}

/** The figures that a scrape reads from the store. */
interface Figures extends StoreStats {
  readonly budgets: readonly BudgetRecord[]
  readonly groups: readonly GroupRecord[]
  /** How long ago the oldest slot was due that has not been fired. */
  readonly scheduleLagMs: number
}

/** A group that fails now is among them. */
const MAX_GROUPS = 1000
const GROUP_STATES: readonly GroupState[] = ['new', 'acknowledged', 'fixed', 'ignored', 'regressed']

const GATE = { closed: 0, half_open: 0.5, open: 1 } as const

async function figuresOf(store: Pick<StoreContract, 'stats' | 'budgets' | 'groups' | 'schedules'>): Promise<Figures> {
  const groups = store.groups.list({}, { limit: MAX_GROUPS })
  const [stats, budgets, { items }, scheduleLagMs] = await Promise.all([
    store.stats(),
    store.budgets.list(),
    groups,
    store.schedules.lagMs(),
  ])
  return { ...stats, budgets, groups: items, scheduleLagMs }
}

interface KindGauge {
  readonly help: string
  readonly value: (stats: KindStats, now: number) => number
}

const GAUGES: Readonly<Record<string, KindGauge>> = {
  redrive_waiting: { help: 'Tasks that wait, in backoff or ready.', value: ({ waiting }) => waiting },
  redrive_ready: { help: 'Tasks that could start now, had a worker a free slot.', value: ({ ready }) => ready },
  redrive_ready_age_seconds: {
    help: 'How long the oldest ready task has been ready.',
    value: ({ readySince }, now) => (readySince === undefined ? 0 : Math.max(0, now - readySince) / 1000),
  },
  redrive_limited: {
    help: 'Tasks that are due, but behind others in an ordered lane, or beyond a concurrency or a rate.',
    value: ({ limited }) => limited,
  },
  redrive_paused: { help: 'Tasks that wait in paused lanes.', value: ({ paused }) => paused },
  redrive_held: {
    help: 'Tasks that wait in lanes held by a rate limit or behind an open gate.',
    value: ({ held }) => held,
  },
  redrive_budgeted: {
    help: 'Retries that are due and held by their retry budget.',
    value: ({ budgeted }) => budgeted,
  },
  redrive_running: { help: 'Tasks that run.', value: ({ running }) => running },
  redrive_dead: { help: 'Current number of dead letters.', value: ({ dead }) => dead },
}

function show(
  gauge: Gauge<'kind' | 'category'>,
  stats: StoreStats | undefined,
  labelSets: LabelSets,
  value: KindGauge['value'],
): void {
  gauge.reset()
  if (stats === undefined) return
  for (const [labels, merged] of mergedBy(labelSets, stats.kinds)) gauge.set({ ...labels }, value(merged, stats.now))
}

/** The figures by label set: kinds beyond the number that is shown are added up. */
function mergedBy(labelSets: LabelSets, kinds: readonly KindStats[]): Map<WorkLabels, KindStats> {
  const merged = new Map<WorkLabels, KindStats>()
  for (const stats of kinds) {
    const labels = labelSets.of(stats.kind, stats.category)
    const before = merged.get(labels)
    merged.set(labels, before === undefined ? stats : sum(before, stats))
  }
  return merged
}

function sum(a: KindStats, b: KindStats): KindStats {
  const since = Math.min(a.readySince ?? Infinity, b.readySince ?? Infinity)
  return {
    ...a,
    waiting: a.waiting + b.waiting,
    paused: a.paused + b.paused,
    held: a.held + b.held,
    budgeted: a.budgeted + b.budgeted,
    ready: a.ready + b.ready,
    limited: a.limited + b.limited,
    readySince: since < Infinity ? since : undefined,
    running: a.running + b.running,
    dead: a.dead + b.dead,
  }
}

/** Rejects if a promise takes too long. */
async function within<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const error = new RetryableError(`The store did not answer within ${timeoutMs} ms.`, { code: 'timeout' })
    timer = setTimeout(reject, timeoutMs, error)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}
