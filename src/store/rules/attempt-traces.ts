import type { LedgerRow } from '../contract/ledger.js'

/** The ids of two traces. */
export interface AttemptTraces {
  /** The trace of the first attempt that was traced. */
  readonly first: string
  /** The trace of the last attempt that was traced. */
  readonly last: string
}

/** The traces of the first and the last attempt in a history; `undefined` if none was traced. */
export function attemptTraces(history: readonly LedgerRow[]): AttemptTraces | undefined {
  const traces = history.flatMap(({ trace }) => trace ?? [])
  const [first] = traces
  return first === undefined ? undefined : { first, last: traces.at(-1) ?? first }
}
