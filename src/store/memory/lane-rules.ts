import type { Lane } from '../store.js'

interface Rule<T> {
  readonly lanes: Partial<Lane>
  readonly value: T
}

/** Pauses or limits that apply to all lanes that match, including lanes that are made later. */
export class MemoryLaneRules<T> {
  #rules: Rule<T>[] = []

  /** Adds a rule, which replaces those that it covers. */
  add(lanes: Partial<Lane>, value: T): void {
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
