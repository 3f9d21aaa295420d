import type { Lane } from '../store.js'
import type { Statements } from './statements.js'

const MOST_LANES_KEPT = 10_000

/** The ids of lanes and the lanes of ids, cached. Cleared after a rollback, which may have undone a lane. */
export class LaneIds {
  readonly #statements: Statements
  readonly #ids = new Map<string, number>()
  readonly #lanes = new Map<number, Lane>()

  constructor(statements: Statements) {
    this.#statements = statements
  }

  /** The id of a lane, which is made if it does not exist. */
  of(kind: string, category: string, key: string): number {
    const name = category === '' && key === '' ? kind : `${kind}\0${category}\0${key}`
    const known = this.#ids.get(name)
    if (known !== undefined) return known

    const statements = this.#statements
    const id = statements.laneId.get(kind, category, key) ?? statements.insertLane.get({ kind, category, key })
    if (id === undefined) throw new Error(`The lane ${JSON.stringify({ kind, category, key })} could not be made.`)
    if (this.#ids.size >= MOST_LANES_KEPT) this.clear()
    this.#ids.set(name, id)
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
  }
}
