import { verify } from 'redrive/operate'
import type { Store } from 'redrive/store'
import type { Summary } from './ledger-summary.js'
import type { Counts } from './progress.js'

/** The figures that a run reports, to be checked against the record. */
export interface Claims {
  /** How many tasks the store must have: those of earlier runs, and those that were added. */
  readonly total: number
  /** How many attempts began, as the events tell it. */
  readonly attempts: number
  /** Whether the run was cut short: what was handed back then has begun, and has no attempt on record. */
  readonly isCutShort: boolean
}

/** Holds the store's counts, its tasks and its ledger against each other. Throws when they do not add up. */
export async function audit(store: Store, summary: Summary, claims: Claims): Promise<string> {
  const counts: Counts = await store.count({})
  const counted = Object.values(counts).reduce((sum, count) => sum + count, 0)
  if (counted !== claims.total) fail(`${claims.total} tasks were accepted, and ${counted} are there`)
  for (const [status, count] of Object.entries(counts)) {
    const listed = summary.tasks.get(status as keyof Counts) ?? 0
    if (listed !== count) fail(`${count} tasks are counted as ${status}, and ${listed} are listed`)
  }
  const [id] = summary.disagreeing
  if (id !== undefined) fail(`the state of ${id} and its history do not agree`)
  const missing = claims.attempts - summary.attemptsOfWorker
  if (missing < 0 || (missing > 0 && !claims.isCutShort)) fail(`${missing} attempts are not on record`)

  const { decisions, unknown, discrepancies } = await verify(store)
  if (discrepancies.length > 0 || unknown > 0) fail(`${discrepancies.length + unknown} decisions cannot be recomputed`)
  return `The counts add up: each of the ${counted} tasks is in one state, and the ${decisions} decisions on record, made again, come out the same.`
}

function fail(problem: string): never {
  throw new Error(`The counts do not add up: ${problem}.`)
}
