import type { GateChange } from '../../contract/budget-store.js'
import type { Settled } from '../../contract/claim.js'

/** The answers to a call of `settle`. The first one tells which gates the call has opened or closed. */
export function withGates(answers: Settled[], gates: readonly GateChange[]): Settled[] {
  const [first, ...others] = answers
  return first === undefined || gates.length === 0 ? answers : [{ ...first, gates }, ...others]
}
