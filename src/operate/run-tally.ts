import type { Verdict } from '../policy/index.js'
import type { LedgerRow, TaskRecord } from '../store/index.js'
import { errorType } from '../telemetry/index.js'
import type { ErrorType } from '../telemetry/internal.js'
import { hasFailed, hasSucceeded, type StageReport, StageTally } from './stage-tally.js'

/** Items that have ended, by the number of retries that they needed over all stages. */
export interface RetryBucket {
  /** The number of retries. */
  readonly retries: number
  /** How many items needed that many. */
  readonly items: number
  /** How many of them are dead. */
  readonly dead: number
}

/** How often the n-th attempt at a stage was made, and how often it succeeded. A redrive counts attempts afresh. */
export interface AttemptYield {
  /** The number of the attempt, from 1. */
  readonly attempt: number
  /** How many such attempts were made. */
  readonly made: number
  /** How many of them succeeded. */
  readonly succeeded: number
}

/** An error, by stage and code. */
export interface ErrorCount {
  /** The stage that it happened in. */
  readonly stage: string
  /** The code of the verdict, such as `http_502`. */
  readonly code: string
  /** Its coarse type; `client_error` for other codes `http_4xx`. */
  readonly type: ErrorType | 'client_error'
  /** Attempts that failed with it. */
  readonly failures: number
  /** Items that are dead because of it. */
  readonly dead: number
}

/** An item with its history. */
export interface ItemHistory {
  readonly item: Pick<TaskRecord, 'status' | 'category' | 'errorCode'>
  readonly history: readonly LedgerRow[]
}

/** More pairs of stage and code are counted as one, so that codes made of ids do not fill the memory. */
const MAX_ERRORS = 1000
const OTHERS = '(others)'

const ENDED: ReadonlySet<TaskRecord['status']> = new Set(['succeeded', 'skipped', 'dead'])

type Counter<T> = { -readonly [K in keyof T]: T[K] }

/** Adds up the histories of items. Its memory depends on stages, attempts and errors, not on the number of items. */
export class RunTally {
  readonly #stages = new Map<string, StageTally>()
  readonly #errors = new Map<string, Counter<ErrorCount>>()
  readonly #types: Record<ErrorCount['type'], number> = {
    rate_limit: 0,
    server_error: 0,
    client_error: 0,
    timeout: 0,
    network_error: 0,
    unknown: 0,
  }
  readonly #retries: Counter<RetryBucket>[] = []
  readonly #yield: Counter<AttemptYield>[] = []

  /** Stages that no item has reached are reported too, in this order; then those that are found besides. */
  constructor(stages: readonly string[]) {
    for (const stage of stages) this.#stages.set(stage, new StageTally())
  }

  add({ item, history }: ItemHistory): void {
    let retries = 0
    for (const row of history) {
      const stage = row.category ?? item.category
      this.#stage(stage).add(row)
      if (row.outcome === 'retry') retries++
      this.#addAttempt(row)
      if (row.verdict === undefined) continue
      const type = typeOf(row.verdict)
      this.#types[type]++
      this.#error(stage, row.verdict.code, type).failures++
    }
    if (item.status === 'dead') this.#addDead(item, history)
    if (ENDED.has(item.status)) {
      const bucket = at(this.#retries, retries, () => ({ retries, items: 0, dead: 0 }))
      bucket.items++
      if (item.status === 'dead') bucket.dead++
    }
  }

  stages(): Omit<StageReport, 'used'>[] {
    return [...this.#stages].map(([stage, tally]) => ({ stage, ...tally.report() }))
  }

  /** The most common first. */
  errors(): ErrorCount[] {
    return [...this.#errors.values()].sort((a, b) => b.dead - a.dead || b.failures - a.failures)
  }

  errorTypes(): Record<ErrorCount['type'], number> {
    return { ...this.#types }
  }

  retries(): RetryBucket[] {
    return this.#retries.filter(bucket => bucket !== undefined)
  }

  yields(): AttemptYield[] {
    return this.#yield.filter(entry => entry !== undefined)
  }

  #addAttempt(row: LedgerRow): void {
    if (!hasSucceeded(row) && !hasFailed(row)) return
    const { attempt } = row
    const entry = at(this.#yield, attempt, () => ({ attempt, made: 0, succeeded: 0 }))
    entry.made++
    if (hasSucceeded(row)) entry.succeeded++
  }

  #addDead({ category, errorCode }: ItemHistory['item'], history: readonly LedgerRow[]): void {
    this.#stage(category).dead++
    const verdict = history.findLast(row => row.verdict !== undefined)?.verdict
    if (errorCode !== undefined && verdict !== undefined) this.#error(category, errorCode, typeOf(verdict)).dead++
  }

  #stage(name: string): StageTally {
    const known = this.#stages.get(name)
    if (known !== undefined) return known
    const tally = new StageTally()
    this.#stages.set(name, tally)
    return tally
  }

  #error(stage: string, code: string, type: ErrorCount['type']): Counter<ErrorCount> {
    const key = JSON.stringify([stage, code])
    const known = this.#errors.get(key)
    if (known !== undefined) return known
    if (this.#errors.size >= MAX_ERRORS && code !== OTHERS) return this.#error(stage, OTHERS, 'unknown')
    const counter = { stage, code, type, failures: 0, dead: 0 }
    this.#errors.set(key, counter)
    return counter
  }
}

function typeOf(verdict: Verdict): ErrorCount['type'] {
  const type = errorType(verdict)
  return type === 'unknown' && /^http_4\d\d$/.test(verdict.code) ? 'client_error' : type
}

/** The entry at an index, made if there is none. */
function at<T>(list: T[], index: number, make: () => T): T {
  const known = list[index]
  if (known !== undefined) return known
  const made = make()
  list[index] = made
  return made
}
