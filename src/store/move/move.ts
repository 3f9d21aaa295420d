import { canonicalJson, hashJson } from '../../policy/index.js'
import { MoveDifferenceError, MoveRefusedError } from '../errors.js'
import { State } from '../task-state.js'
import { type Movable, type MovedRow, SORTS, type Sort } from './movable.js'
import { pagesOf, sideBySide } from './side-by-side.js'

/*
 * A move in three steps, each page by page over all sorts of things:
 *
 * - **compare**: whatever the target holds must be as it is at the source: then an interrupted move left it there. Two
 *   stores are never mixed.
 * - **move**: what is not there yet is added, page by page; the source is only read.
 * - **verify**: both are read from end to end, and counted and added up.
 *
 * It keeps no notes of its own: after an interruption, at whatever moment, the same call goes on.
 */

/** How far a move has come. */
export interface MoveProgress {
  readonly step: 'comparing' | 'moving' | 'verifying'
  readonly sort: Sort
  readonly done: number
  /** How many there are; not known before they were compared. */
  readonly total?: number
}

/** How a move is watched and stopped. */
export interface MoveOptions {
  readonly onProgress?: (progress: MoveProgress) => void
  /** Stops it after the page that is under way. */
  readonly signal?: AbortSignal
}

/** What there is to move of a sort. */
export interface SortPlan {
  readonly sort: Sort
  /** How many the source has. */
  readonly source: number
  /** How many of them the target had already. */
  readonly before: number
}

/** What was moved of a sort. */
export interface MovedSort extends SortPlan {
  moved: number
  /** The sum of the SHA-256 of all, equal on both sides; `undefined` if it was stopped before that was verified. */
  checksum: string | undefined
}

/** What a move came to. */
export interface Move {
  readonly sorts: readonly MovedSort[]
  /** It was stopped by its signal. The same call goes on with the rest. */
  readonly isStopped: boolean
}

/** What can be compared. */
type Exporter = Pick<Movable, 'exportPage'>

const SORT_NAMES = Object.keys(SORTS) as Sort[]

/** A worker by name only: it gives one sign of life, which rescues what dead ones left, and leaves. */
const LEASE_MS = 1000

/**
 * Moves everything that a store holds to another: tasks with their ledger, lanes, pause rules, policies, idempotency keys
 * and audit records. Then verifies that both hold the same. The source keeps everything.
 *
 * ```ts
 * const { sorts } = await moveStore(await openSqlite('redrive.db'), await openPostgres('postgres://localhost/app'))
 * ```
 *
 * Stop whatever uses either store first. A source that has running tasks and a target that holds something else are
 * refused: `MoveRefusedError`. If the two differ afterwards, that is a `MoveDifferenceError`.
 */
export async function moveStore(from: Movable, to: Movable, options: MoveOptions = {}): Promise<Move> {
  const sorts: MovedSort[] = []
  try {
    await refuseRunning(from)
    for (const plan of await planMove(from, to, options)) sorts.push({ ...plan, moved: 0, checksum: undefined })
    for (const part of sorts) await moveSort(from, to, part, options)
    for (const part of sorts) part.checksum = await verifySort(from, to, part, options)
    await verifyCounts(from, to)
    return { sorts, isStopped: false }
  } catch (error) {
    if (options.signal?.aborted && error === options.signal.reason) return { sorts, isStopped: true }
    throw error
  }
}

/** Says what there is to move, and moves nothing. Throws a `MoveRefusedError` if the target holds something else. */
export async function planMove(from: Exporter, to: Exporter, options: MoveOptions = {}): Promise<SortPlan[]> {
  const plans: SortPlan[] = []
  for (const sort of SORT_NAMES) plans.push(await planSort(from, to, sort, options))
  return plans
}

/** Takes back what dead workers left. Throws if somebody is still at work. */
async function refuseRunning(from: Movable): Promise<void> {
  const name = `redrive-move-${crypto.randomUUID()}`
  await from.heartbeat({ worker: name, leaseMs: LEASE_MS })
  await from.leave(name)
  const { running } = await from.count({ status: 'running' })
  if (running > 0) throw atWork(running === 1 ? 'one of its tasks is running' : `${running} of its tasks are running`)
}

async function planSort(
  from: Exporter,
  to: Exporter,
  sort: Sort,
  { onProgress, signal }: MoveOptions,
): Promise<SortPlan> {
  let [source, before] = [0, 0]
  for await (const [given, found] of sideBySide([from, to], sort, signal)) {
    if (found !== undefined) {
      if (given === undefined || hashJson(given) !== hashJson(found)) throw mixed(differenceOf(sort, given, found))
      before++
    }
    source++
    onProgress?.({ step: 'comparing', sort, done: source })
  }
  return { sort, source, before }
}

async function moveSort(
  from: Movable,
  to: Movable,
  part: MovedSort,
  { onProgress, signal }: MoveOptions,
): Promise<void> {
  const { sort, source } = part
  let done = 0
  for await (const rows of pagesOf(from, sort, signal)) {
    if (sort === 'task' && rows.some(({ state }) => state === State.running)) throw atWork('a worker has started')
    if (rows.length > 0) part.moved += await to.importRows(sort, rows)
    done += rows.length
    onProgress?.({ step: 'moving', sort, done, total: source })
  }
}

/** The checksum that both have. Throws if they differ. */
async function verifySort(
  from: Exporter,
  to: Exporter,
  { sort, source }: SortPlan,
  { onProgress, signal }: MoveOptions,
): Promise<string> {
  const [inSource, inTarget] = [new Checksum(), new Checksum()]
  let example: string | undefined
  for await (const [given, found] of sideBySide([from, to], sort, signal)) {
    if (inSource.add(given) !== inTarget.add(found)) example ??= differenceOf(sort, given, found)
    onProgress?.({ step: 'verifying', sort, done: inSource.count, total: source })
  }
  if (example !== undefined || inSource.text !== inTarget.text)
    throw new MoveDifferenceError(example ?? `the checksums of the sort '${sort}' differ`)
  return inSource.text
}

/** What the stores count by themselves, apart from their rows, must agree as well. */
async function verifyCounts(from: Movable, to: Movable): Promise<void> {
  const [source, target] = [canonicalJson(await from.count({})), canonicalJson(await to.count({}))]
  if (source !== target) throw new MoveDifferenceError(`the source counts ${source}, and the target ${target}`)
}

/** Sums up rows, in whatever order they come. */
class Checksum {
  count = 0
  #sum = 0n

  /** Returns the hash of the row itself. */
  add(row: MovedRow | undefined): string | undefined {
    if (row === undefined) return undefined
    const hash = hashJson(row)
    this.count++
    this.#sum = BigInt.asUintN(256, this.#sum + BigInt(`0x${hash}`))
    return hash
  }

  get text(): string {
    return this.#sum.toString(16).padStart(64, '0')
  }
}

function atWork(what: string): MoveRefusedError {
  return new MoveRefusedError(
    `The source is in use: ${what}. Stop its workers; after a worker that died, wait until its lease has run out`,
  )
}

function mixed(difference: string): MoveRefusedError {
  return new MoveRefusedError(
    `The target holds something else: ${difference}. Two stores are not mixed: give an empty one, which nobody uses yet`,
  )
}

function differenceOf(sort: Sort, given: MovedRow | undefined, found: MovedRow | undefined): string {
  const row = given ?? found ?? {}
  const name = `the ${sort} ${SORTS[sort].key.map(column => `'${row[column]}'`).join(' ')}`
  if (found === undefined) return `${name} is at the source alone`
  return given === undefined ? `${name} is at the target alone` : `${name} is not the same in both`
}
