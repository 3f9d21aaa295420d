import type { Counts } from './sweep-context.js'

/** Counts the documents of one update that the database refuses: they are reported, and do not hold up the others. */
export function refusalsIn(counts: Counts) {
  const refusals = {
    count: 0,
    add: (_: unknown, error: unknown) => {
      refusals.count++
      counts.documentErrors++
      counts.documentError ??= error
    },
  }
  return refusals
}
