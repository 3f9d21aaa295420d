/** Bounds between which a value lies. */
export interface Interval {
  /** The lower one. */
  readonly low: number
  /** The upper one. */
  readonly high: number
}

/** The chance that the true value lies outside its interval, on each side. */
const TAIL = 0.025
/** Halvings of the range of a probability: beyond a double's precision. */
const STEPS = 60

/**
 * The share that `hits` of `trials` stand for, with 95 % confidence (Clopper-Pearson): none of 200 means 0 to 1.8 %, two
 * of 200 mean 0.1 to 3.6 %. Exact, so it also holds for the few hits of a rare failure.
 */
export function binomialInterval(hits: number, trials: number): Interval {
  if (trials === 0) return { low: 0, high: 1 }
  return {
    low: hits === 0 ? 0 : bisect(share => 1 - atMost(hits - 1, trials, share) < TAIL),
    high: hits === trials ? 1 : bisect(share => atMost(hits, trials, share) > TAIL),
  }
}

/** The probability where a condition that holds for small ones ceases to hold. */
function bisect(isBelow: (share: number) => boolean): number {
  let [low, high] = [0, 1]
  for (let step = 0; step < STEPS; step++) {
    const middle = (low + high) / 2
    if (isBelow(middle)) low = middle
    else high = middle
  }
  return (low + high) / 2
}

/** The probability of at most this many hits. Adds up logarithms, since the factors are too large and too small. */
function atMost(hits: number, trials: number, share: number): number {
  let logTerm = trials * Math.log1p(-share)
  let sum = Math.exp(logTerm)
  for (let hit = 1; hit <= hits; hit++) {
    logTerm += Math.log((trials - hit + 1) / hit) + Math.log(share) - Math.log1p(-share)
    sum += Math.exp(logTerm)
  }
  return Math.min(1, sum)
}
