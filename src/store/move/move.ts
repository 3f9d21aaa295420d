import { canonicalJson, hashJson } from '../../policy/index.js'
import { quoted } from '../../policy/internal.js'
import { MoveDifferenceError, MoveRefusedError } from '../contract/errors.js'
import type { Store } from '../contract/public-store.js'
import { State } from '../rules/task-state.js'
import { type Movable, type MovedRow, movableOf, SECTIONS, type Section } from './movable.js'
import { pagesOf, sideBySide } from './side-by-side.js'

/*
 * A move has three steps, each of which goes through all sections page by page:
 *
 * - **compare**: every row of the target must equal one of the source, as after an interrupted move. Two stores are never
 *   mixed.
 * - **move**: rows that the target lacks are added; the source is only read.
 * - **verify**: both stores are read from end to end, and their counts and checksums compared.
 *
 * A move keeps no state of its own: after an interruption at any moment, the same call continues.
 */

/** The progress of a move. */
export interface MoveProgress {
  /** The step that the move is at. */
  readonly step: 'comparing' | 'moving' | 'verifying'
  /** The section that it works on. */
  readonly section: Section
  /** How many rows of the section are done. */
  readonly done: number
  /** The rows in the section; unknown until it has been compared. */
  readonly total?: number
}

/** Options of a move. @inline */
export interface MoveOptions {
  /** Called as the move goes on. */
  readonly onProgress?: (progress: MoveProgress) => void
  /** Stops the move after the current page. */
  readonly signal?: AbortSignal
}

/** The rows of a section that a move finds. */
export interface SectionPlan {
  /** A part of the store: tasks, lanes, keys and so on. */
  readonly section: Section
  /** Rows in the source. */
  readonly source: number
  /** Rows of the source that the target had already. */
  readonly before: number
}

/** The result of a move for one section. */
export interface MovedSection extends SectionPlan {
  /** Rows added to the target. */
  moved: number
  /** The sum of the rows' SHA-256, equal on both sides; `undefined` if the move was stopped before it was verified. */
  checksum: string | undefined
}

/** The result of a move. */
export interface Move {
  /** The result for each section. */
  readonly sections: readonly MovedSection[]
  /** True if its signal stopped it. The same call continues with the rest. */
  readonly isStopped: boolean
}

/** A store that can be read section by section. */
type Exporter = Pick<Movable, 'exportPage'>

const NOTHING: Exporter = { exportPage: async () => ({ items: [] }) }

const SECTIONS_IN_ORDER = Object.keys(SECTIONS) as Section[]

/** The lease of a worker that exists only to send one heartbeat, which rescues the tasks of dead workers. */
const LEASE_MS = 1000

/**
 * Copies the whole contents of a store to another: tasks with their ledger, lanes, pause rules, policies, runs, idempotency keys
 * and audit records. Then verifies that both hold the same. The source keeps everything.
 *
 * ```ts
 * const { sections } = await moveStore(await openSqlite('redrive.db'), await openPostgres('postgres://localhost/app'))
 * ```
 *
 * Stop everything that uses either store first. Throws a `MoveRefusedError` if tasks of the source are running or the
 * target holds anything else, and a `MoveDifferenceError` if the two differ afterwards.
 */
export async function moveStore(from: Store, to: Store, options: MoveOptions = {}): Promise<Move> {
  const [source, target] = [movableOf(from), movableOf(to)]
  const sections: MovedSection[] = []
  try {
    await refuseRunning(source)
    for (const plan of await planMove(from, to, options)) sections.push({ ...plan, moved: 0, checksum: undefined })
    for (const part of sections) await moveSection(source, target, part, options)
    for (const part of sections) part.checksum = await verifySection(source, target, part, options)
    await verifyCounts(source, target)
    return { sections, isStopped: false }
  } catch (error) {
    if (options.signal?.aborted && error === options.signal.reason) return { sections, isStopped: true }
    throw error
  }
}

/**
 * Counts the rows to move, and moves none. Throws a `MoveRefusedError` if the target holds anything else. Without a target, it
 * counts as empty: a move would create it.
 */
export async function planMove(from: Store, to: Store | undefined, options: MoveOptions = {}): Promise<SectionPlan[]> {
  const [source, target] = [movableOf(from), to === undefined ? NOTHING : movableOf(to)]
  const plans: SectionPlan[] = []
  for (const section of SECTIONS_IN_ORDER) plans.push(await planSection(source, target, section, options))
  return plans
}

/** Rescues the tasks of dead workers. Throws if any task is still running. */
async function refuseRunning(from: Movable): Promise<void> {
  const name = `redrive-move-${crypto.randomUUID()}`
  await from.heartbeat({ worker: name, leaseMs: LEASE_MS })
  await from.leave(name)
  const { running } = await from.count({ status: 'running' })
  if (running > 0) throw atWork(running === 1 ? 'one of its tasks is running' : `${running} of its tasks are running`)
}

async function planSection(
  from: Exporter,
  to: Exporter,
  section: Section,
  { onProgress, signal }: MoveOptions,
): Promise<SectionPlan> {
  let [source, before] = [0, 0]
  for await (const [given, found] of sideBySide([from, to], section, signal)) {
    if (found !== undefined) {
      if (given === undefined || hashJson(given) !== hashJson(found)) throw mixed(differenceOf(section, given, found))
      before++
    }
    source++
    onProgress?.({ step: 'comparing', section, done: source })
  }
  return { section, source, before }
}

async function moveSection(
  from: Movable,
  to: Movable,
  part: MovedSection,
  { onProgress, signal }: MoveOptions,
): Promise<void> {
  const { section, source } = part
  let done = 0
  for await (const rows of pagesOf(from, section, signal)) {
    if (section === 'task' && rows.some(({ state }) => state === State.running)) throw atWork('a worker has started')
    if (rows.length > 0) part.moved += await to.importRows(section, rows)
    done += rows.length
    onProgress?.({ step: 'moving', section, done, total: source })
  }
}

/** The checksum that both have. Throws if they differ. */
async function verifySection(
  from: Exporter,
  to: Exporter,
  { section, source }: SectionPlan,
  { onProgress, signal }: MoveOptions,
): Promise<string> {
  const [inSource, inTarget] = [new Checksum(), new Checksum()]
  let example: string | undefined
  for await (const [given, found] of sideBySide([from, to], section, signal)) {
    if (inSource.add(given) !== inTarget.add(found)) example ??= differenceOf(section, given, found)
    onProgress?.({ step: 'verifying', section, done: inSource.count, total: source })
  }
  if (example !== undefined || inSource.text !== inTarget.text)
    throw new MoveDifferenceError(example ?? `the checksums of the section '${section}' differ`)
  return inSource.text
}

/** The counts that stores keep apart from their rows must agree as well. */
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
    `The source is in use: ${what}. Stop its workers; after a worker that died, wait until its lease has expired`,
  )
}

function mixed(difference: string): MoveRefusedError {
  return new MoveRefusedError(
    `The target holds something else: ${difference}. Stores cannot be merged: use an empty one that nobody uses yet`,
  )
}

function differenceOf(section: Section, given: MovedRow | undefined, found: MovedRow | undefined): string {
  const row = given ?? found ?? {}
  const name = `the ${section} ${SECTIONS[section].key.map(column => quoted(row[column])).join(' ')}`
  if (found === undefined) return `${name} is only in the source`
  return given === undefined ? `${name} is only in the target` : `${name} differs between the two`
}
