import type { Lane, LaneSelection } from '../contract/lane.js'

interface Rule<T> {
  readonly lanes: LaneSelection
  readonly value: T
}

/** Pauses or limits that apply to all lanes that match, including lanes that are made later. */
export class MemoryLaneRules<T> {
  #rules: Rule<T>[] = []

  /** Adds a rule, which replaces those that it covers. */
  add({ kind, category, key }: LaneSelection, value: T): void {
    const lanes = { kind, ...(category !== undefined && { category }), ...(key !== undefined && { key }) }
    this.#rules = [...this.#rules.filter(rule => !matches(lanes, rule.lanes)), { lanes, value }]
  }

  /** Removes the rule that names exactly these lanes. */
  remove({ kind, category, key }: Partial<Lane>): void {
    const isIt = ({ lanes }: Rule<T>) => lanes.kind === kind && lanes.category === category && lanes.key === key
    this.#rules = this.#rules.filter(rule => !isIt(rule))
  }

  /** The rule for exactly these lanes. */
  exactly(lanes: Partial<Lane>): T | undefined {
    return this.#rules.find(rule => matches(lanes, rule.lanes) && matches(rule.lanes, lanes))?.value
  }

  /** The rules that select any lane with these fields, oldest first. */
  all({ kind, category, key }: Partial<Lane>): (readonly [LaneSelection, T])[] {
    const isAny = (of: string | undefined, asked: string | undefined) =>
      of === undefined || asked === undefined || of === asked
    return this.#rules
      .filter(({ lanes }) => isAny(lanes.kind, kind) && isAny(lanes.category, category) && isAny(lanes.key, key))
      .map(({ lanes, value }) => [lanes, value] as const)
  }

  /** The last rule that matches a lane holds. */
  for(lane: Lane): T | undefined {
    return this.#rules.findLast(({ lanes }) => matches(lanes, lane))?.value
  }
}

/** Whether a lane, or a rule, lies within a filter. An empty category or key is a value like any other. */
export function matches(filter: Partial<Lane>, { kind, category, key }: Partial<Lane>): boolean {
  return (
    (filter.kind === undefined || filter.kind === kind) &&
    (filter.category === undefined || filter.category === category) &&
    (filter.key === undefined || filter.key === key)
  )
}
