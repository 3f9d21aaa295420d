/**
 * A lane with a key is forgotten once it is idle: it has no tasks at all, also none that have ended, it is neither paused nor
 * held, and its limits are those that the rules would give it again. So keys that come and go leave nothing behind. `prune`
 * looks at some lanes each time, anywhere among them, so that its cost does not depend on their number.
 */

/** How many lanes `prune` looks at. PostgreSQL has it too. */
export const LANES_AT_ONCE = 200

/** A lane that starts slowly after a hold is as free as any other after this time. */
export const COOLED_MS = 24 * 60 * 60 * 1000

/** The id after which to look at lanes. All of them come up, wherever there are more of them than are looked at. */
export function laneWindow(first: number, last: number): number {
  if (last - first < LANES_AT_ONCE) return first - 1
  return Math.floor(first - LANES_AT_ONCE + Math.random() * (last - first + LANES_AT_ONCE))
}
