const given = process.env.REDRIVE_FAULT_SEED
const seed = given === undefined ? Math.floor(Math.random() * 2 ** 32) : Number(given)

/** The seeded random source of a fault test. */
export interface Dice {
  /** A whole number, both ends included. */
  between(low: number, high: number): number
  pick<T>(choices: readonly T[]): T
}

/**
 * The dice of one file. Prints the seed: `REDRIVE_FAULT_SEED=… npx vitest run test/faults` draws the same choices
 * again. (How the processes interleave is up to the machine.)
 */
export function diceOf(theme: string): Dice {
  process.stdout.write(`[faults] ${theme}: REDRIVE_FAULT_SEED=${seed}\n`)
  const random = mulberry32(seed)
  const between = (low: number, high: number) => low + Math.floor(random() * (high - low + 1))
  return {
    between,
    pick: choices => choices[between(0, choices.length - 1)] as (typeof choices)[number],
  }
}

function mulberry32(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
