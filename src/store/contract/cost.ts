import type { Lane } from './lane.js'
import type { Cost } from './task.js'

/** Which costs to add up. An absent field matches everything. */
export interface CostFilter extends Partial<Lane> {
  /** Only what was spent from then on, in milliseconds since the epoch: costs are kept by the hour, and that hour counts. */
  readonly since?: number
}

/** A field that costs are added up by. */
export type CostField = keyof Lane

/** The cost of attempts that agree in the fields by which costs are added up. */
export interface CostTotal extends Partial<Lane> {
  /** How much they took from each bucket, as `used()` said. */
  readonly used: Cost
}
