import type { Lane } from '../contract/lane.js'
import { FIRST_RUN_LANE, isItem } from '../rules/runs/items.js'
import { NEW_STATE, NO_QUOTA_LIMITS } from '../rules/shared-limit.js'
import type { Statements } from './statements.js'

const MOST_LANES_KEPT = 10_000

/** The ids of lanes and the lanes of ids, cached. Cleared after a rollback, which may have undone a lane. */
export class LaneIds {
  readonly #statements: Statements
  readonly #ids = new Map<string, number>()
  readonly #lanes = new Map<number, Lane>()
  #dataVersion: number | undefined
  /** Lanes of runs. Another process may forget a run and its lanes, so these hold for one transaction. */
  readonly #runIds = new Map<string, number>()
  /** The lanes that items advance to, by the category of the lane and the lane that they leave. */
  readonly #next = new Map<string, Map<number, number>>()

  constructor(statements: Statements) {
    this.#statements = statements
  }

  /** Begins a transaction. */
  begin(): void {
    // Idle lanes are forgotten, by whichever process. No id is given twice, so the lanes of ids stay as they are.
    const version = this.#statements.dataVersion.get()
    if (version !== this.#dataVersion) this.#ids.clear()
    this.#dataVersion = version
    if (this.#runIds.size > 0) this.#runIds.clear()
    if (this.#next.size > 0) this.#next.clear()
  }

  /** The id of a lane, which is made if it does not exist. */
  of(kind: string, category: string, key: string): number {
    const ids = isItem({ kind, key }) ? this.#runIds : this.#ids
    const name = category === '' && key === '' ? kind : `${kind}\0${category}\0${key}`
    const known = ids.get(name)
    if (known !== undefined) return known

    const id = this.#statements.laneId.get(kind, category, key) ?? makeLane(this.#statements, { kind, category, key })
    if (this.#ids.size >= MOST_LANES_KEPT) this.clear()
    ids.set(name, id)
    return id
  }

  /** The id of the lane that an item advances to from a lane. Found without a name, which takes longer to make than to find. */
  next(from: number, { kind, key }: Lane, to: string): number {
    let lanes = this.#next.get(to)
    if (lanes === undefined) {
      lanes = new Map()
      this.#next.set(to, lanes)
    }
    let id = lanes.get(from)
    if (id === undefined) {
      id = this.of(kind, to, key)
      lanes.set(from, id)
    }
    return id
  }

  /** The lane with an id; `undefined` if there is none. */
  lane(id: number): Lane | undefined {
    let lane = this.#lanes.get(id)
    if (lane === undefined) {
      lane = this.#statements.lane.get(id)
      if (this.#lanes.size >= MOST_LANES_KEPT) this.clear()
      if (lane !== undefined) this.#lanes.set(id, lane)
    }
    return lane
  }

  clear(): void {
    this.#ids.clear()
    this.#lanes.clear()
    this.#runIds.clear()
    this.#next.clear()
  }
}

/** Makes a lane, with the pauses and limits of the rules that match it. Returns its id. */
export function makeLane(statements: Statements, { kind, category, key }: Lane): number {
  const id = statements.insertLane.get({
    kind,
    category,
    key,
    run: isItem({ kind, key }) ? runLane(statements) : null,
  })
  if (id === undefined) throw new Error(`The lane ${JSON.stringify({ kind, category, key })} could not be made.`)
  return id
}

/** Puts a lane under a quota, whose limit is made if it does not exist. */
export function joinQuota(statements: Statements, lane: number, kind: string, quota: string): void {
  if (statements.quotaOf.get(lane) === quota) return
  const made = { limits: JSON.stringify(NO_QUOTA_LIMITS), state: JSON.stringify(NEW_STATE) }
  statements.makeQuota.run({ kind, quota, ...made })
  statements.joinQuota.run({ lane, kind, quota })
}

/** An id that no lane of a run has had. */
function runLane(statements: Statements): number {
  const { lastInsertRowid } = statements.addRunLane.run()
  statements.clearRunLanes.run()
  return FIRST_RUN_LANE + Number(lastInsertRowid)
}
